#include "pathways/bin/cluster_flags.h"

#include <chrono>

#include "pathways/base/memory/machine_memory.h"
#include "pathways/base/process/processor_wait.h"
#include "pathways/base/status_macros.h"
#include "pathways/gang/scheduler.h"

namespace pw {
namespace {

absl::StatusOr<::pathways::v1::HostConfig> HostConfigFrom(const ClusterFlags& options) {
  if (options.coalesce_delay < absl::ZeroDuration() || options.coalesce_bytes < 0 || options.coalesce_messages < 0)
    return absl::InvalidArgumentError("--coalesce-delay, --coalesce-bytes and --coalesce-messages must not be negative");
  ::pathways::v1::HostConfig config;
  config.set_checksum(options.checksum);
  config.set_spill(options.spill);
  config.mutable_coalescing()->set_max_delay_nanoseconds(static_cast<uint64_t>(absl::ToInt64Nanoseconds(options.coalesce_delay)));
  config.mutable_coalescing()->set_max_bytes(static_cast<uint64_t>(options.coalesce_bytes));
  config.mutable_coalescing()->set_max_messages(static_cast<uint64_t>(options.coalesce_messages));
  return config;
}

}  // namespace

void DeclareCluster(ClusterFlags* options, Flags* flags) {
  flags->Add("heartbeat-limit", &options->cluster.heartbeat_limit, "DURATION", "a host counts as lost after this silence");
  options->cluster.limits.staged_bytes = 0;
  flags->Add(
      "staged-limit", &options->cluster.limits.staged_bytes, "BYTES",
      "how much the controller buffers of one client's arrays on their way to the devices; 0: half of this machine's memory");
  flags->Add("handle-limit", &options->cluster.limits.handles, "N", "how many arrays a client may have at a time");
  flags->Add("virtual-devices", &options->cluster.virtual_devices, "N",
             "how many devices a client's virtual slices may have together; 0: four times the cluster's, at least 64");
  flags->Add("checksum", &options->checksum, "all hosts protect transfers to each other by checksums (CRC-32C)");
  flags->Add("spill", &options->spill,
             "when a device's memory (--memory-limit) is full, its host moves arrays that no computation uses to host memory");
  flags->Add("coalesce-delay", &options->coalesce_delay, "DURATION",
             "how long a host delays dataflow messages so that one frame carries several; 0: 200us");
  flags->Add("coalesce-bytes", &options->coalesce_bytes, "BYTES",
             "a host sends delayed messages earlier once they have this size; 0: 64 KiB");
  flags->Add("coalesce-messages", &options->coalesce_messages, "N", "or once there are this many; 0: 1024");
  flags->Add("dispatch", &options->dispatch, "parallel|sequential",
             "how hosts get programs of many nodes: all nodes at once, or node by node, for comparison");
  flags->Add("policy", &options->cluster.gang.policy, "fifo|share|priority",
             "which client's computation is next: by arrival, by weight (shares of device time) or by priority");
  flags->Add("gang-window", &options->gang_window, "DURATION",
             "how far ahead of its work a device gets computations, in predicted time");
  flags->Add("gang-window-count", &options->cluster.gang.window_gangs, "N",
             "how many computations a device gets ahead, however long they take");
  flags->Add("gang-lead", &options->gang_lead, "DURATION",
             "once an island has had several clients: how long before its device is free a computation that does not fit into --gang-window is "
             "sent ahead. Shorter: others wait less for long computations; longer: devices are idle less if predictions are wrong");
  flags->Add("gang-aging", &options->gang_aging, "DURATION",
             "with --policy=priority: waiting this long raises the priority by one");
  flags->Add("hang-limit", &options->cluster.hangs.least, "DURATION",
             "a computation that takes ten times its predicted time, and longer than this, is reported as hanging; a program's "
             "first run after six times this");
}

absl::StatusOr<controller::ClusterOptions> ClusterOptionsFrom(const ClusterFlags& options) {
  controller::ClusterOptions cluster = options.cluster;
  if (cluster.limits.staged_bytes < 0)
    return absl::InvalidArgumentError("--staged-limit must be a number of bytes; 0 means half of the machine's memory");
  if (cluster.expect_hosts < 1) return absl::InvalidArgumentError("--expect-hosts must be at least 1");
  if (options.dispatch != "parallel" && options.dispatch != "sequential")
    return absl::InvalidArgumentError("--dispatch must be parallel or sequential");
  if (cluster.heartbeat_limit < absl::Milliseconds(10))
    return absl::InvalidArgumentError("--heartbeat-limit must be at least 10ms");
  if (cluster.limits.staged_bytes == 0) cluster.limits.staged_bytes = HalfOfMemory();
  if (cluster.hangs.least <= absl::ZeroDuration()) return absl::InvalidArgumentError("--hang-limit must be longer than 0s");
  cluster.hangs.unmeasured = 6 * cluster.hangs.least;
  cluster.watch_process = [](int64_t pid) {
    return [wait = ProcessorWait(pid)](absl::Time now) mutable { return wait.Look(now); };
  };
  cluster.wall_clock = [] { return absl::FromChrono(std::chrono::system_clock::now()); };
  cluster.gang.window_ns = absl::ToInt64Nanoseconds(options.gang_window);
  cluster.gang.lead_ns = absl::ToInt64Nanoseconds(options.gang_lead);
  cluster.gang.aging_ns = absl::ToInt64Nanoseconds(options.gang_aging);
  PW_RETURN_IF_ERROR(gang::Scheduler::Create(cluster.gang).status());
  cluster.sequential_dispatch = options.dispatch == "sequential";
  PW_ASSIGN_OR_RETURN(cluster.host_config, HostConfigFrom(options));
  return cluster;
}

}  // namespace pw
