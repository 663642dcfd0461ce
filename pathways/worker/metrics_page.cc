#include "pathways/worker/metrics_page.h"

#include "absl/strings/str_cat.h"
#include "pathways/http/metrics_text.h"

namespace pw::worker {
namespace {

using http::MetricsText;

void AddMemory(const pathways::v1::MemoryReport& memory, MetricsText* text) {
  const auto add = [&](int64_t (pathways::v1::MemoryReport::Device::*read)() const) {
    for (int ordinal = 0; ordinal < memory.devices_size(); ++ordinal) {
      text->Value({{"ordinal", absl::StrCat(ordinal)}}, static_cast<double>((memory.devices(ordinal).*read)()));
    }
  };
  using Device = pathways::v1::MemoryReport::Device;
  text->Gauge("pathways_worker_arrays", "Arrays of which this host holds a part.").Value(static_cast<double>(memory.arrays()));
  text->Gauge("pathways_worker_device_memory_used_bytes", "Bytes of arrays on the device, by its number on this host.");
  add(&Device::used_bytes);
  text->Gauge("pathways_worker_device_memory_peak_bytes", "The most bytes of arrays that the device has had.");
  add(&Device::peak_bytes);
  text->Gauge("pathways_worker_device_memory_limit_bytes", "The limit of the device's memory for arrays; 0: none.");
  add(&Device::limit_bytes);
}

void AddDataflow(const pathways::v1::MetricsReport::Dataflow& dataflow, MetricsText* text) {
  text->Counter("pathways_worker_dataflow_tuples_total", "Tuples of coordination dataflow that were sent to other hosts.")
      .Value(static_cast<double>(dataflow.tuples_sent()));
  text->Counter("pathways_worker_dataflow_reports_total", "Progress reports that were sent to other hosts.")
      .Value(static_cast<double>(dataflow.reports_sent()));
  text->Counter("pathways_worker_dataflow_messages_total", "Messages to other hosts, sent at once or coalesced.")
      .Value({{"lane", "critical"}}, static_cast<double>(dataflow.critical_messages()))
      .Value({{"lane", "coalesced"}}, static_cast<double>(dataflow.coalesced_messages()));
  text->Counter("pathways_worker_dataflow_frames_total", "Frames that carried these messages.")
      .Value({{"lane", "critical"}}, static_cast<double>(dataflow.critical_frames()))
      .Value({{"lane", "coalesced"}}, static_cast<double>(dataflow.coalesced_frames()));
}

}  // namespace

std::string MetricsPage::Text() const {
  MetricsText text;
  text.Gauge("pathways_worker_info", "Always 1; its labels name the host.").Value({{"island", island}, {"host", host}}, 1);
  text.Gauge("pathways_worker_joined", "1 while this host is part of a cluster, 0 while it waits for a controller.")
      .Value(joined ? 1 : 0);
  text.Counter("pathways_worker_launches_total", "Computations that the devices have completed since the host joined.")
      .Value(static_cast<double>(metrics.launches()));
  text.Counter("pathways_worker_device_seconds_total", "Device time of these computations, summed over devices.")
      .Value(metrics.device_microseconds() * 1e-6);
  text.Gauge("pathways_worker_commands_parked", "Commands that wait for arrays, memory or their turn.")
      .Value(static_cast<double>(health.commands_parked()));
  text.Gauge("pathways_worker_executions_waiting", "Computations that wait for their turn on the devices.")
      .Value(static_cast<double>(health.executions_waiting()));
  text.Gauge("pathways_worker_memory_waits", "Commands that wait for memory.").Value(static_cast<double>(health.memory_waits()));
  text.Gauge("pathways_worker_spilled_bytes", "Bytes of arrays that have been moved to host memory for lack of device memory.")
      .Value(static_cast<double>(metrics.spilled_bytes()));
  text.Counter("pathways_worker_spill_moves_total", "Shards moved between device and host memory.")
      .Value({{"direction", "out"}}, static_cast<double>(metrics.moved_out()))
      .Value({{"direction", "back"}}, static_cast<double>(metrics.moved_back()));
  AddMemory(metrics.memory(), &text);
  AddDataflow(metrics.dataflow(), &text);
  return text.Take();
}

}  // namespace pw::worker
