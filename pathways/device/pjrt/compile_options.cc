#include "pathways/device/pjrt/compile_options.h"

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "xla/compile_options.pb.h"

namespace pw::device::pjrt {

namespace {

// The CPU plugin numbers devices by process, this many ids for each.
constexpr int kDevicesOfProcess = 2048;

// Returns the plugin's number for the device at a position.
absl::StatusOr<int> DeviceNumber(const CompileRequest& request, int position, const Client& client) {
  const int devices = static_cast<int>(client.devices().size());
  const bool spans = !request.positions.empty();
  const int ordinal = spans ? request.positions[position].device : request.devices[position];
  if (spans && !request.positions[position].process.empty()) {
    absl::StatusOr<int> process = client.processes().NumberOf(request.positions[position].process);
    if (!process.ok()) return process.status();
    return *process * kDevicesOfProcess + ordinal;
  }
  if (ordinal >= 0 && ordinal < devices) return client.devices()[ordinal].info.runtime_id;
  return absl::InvalidArgumentError(absl::StrCat("there is no local device ", ordinal, "; this host has ", devices));
}

}  // namespace

absl::StatusOr<std::string> PlaceOptions(const CompileRequest& request, const Client& client) {
  const int64_t wanted = int64_t{request.num_replicas} * request.num_partitions;
  const size_t given = request.positions.empty() ? request.devices.size() : request.positions.size();
  if (request.num_replicas < 1 || request.num_partitions < 1 || wanted != static_cast<int64_t>(given)) {
    return absl::InvalidArgumentError(absl::StrCat("a program of ", request.num_replicas, " replicas and ",
                                                   request.num_partitions,
                                                   " partitions needs as many devices as their product, not ", given));
  }
  xla::CompileOptionsProto options;
  if (!options.ParseFromString(request.options)) {
    return absl::InvalidArgumentError("the compile options are not a serialized xla.CompileOptionsProto");
  }
  const bool has_build_options = options.has_executable_build_options();
  xla::ExecutableBuildOptionsProto* build = options.mutable_executable_build_options();
  if (!has_build_options) build->set_device_ordinal(-1);  // for XLA: "as assigned"
  build->set_num_replicas(request.num_replicas);
  build->set_num_partitions(request.num_partitions);
  xla::DeviceAssignmentProto* assignment = build->mutable_device_assignment();
  assignment->Clear();
  assignment->set_replica_count(request.num_replicas);
  assignment->set_computation_count(request.num_partitions);
  for (int p = 0; p < request.num_partitions; ++p) {
    auto* computation = assignment->add_computation_devices();
    for (int r = 0; r < request.num_replicas; ++r) {
      PW_ASSIGN_OR_RETURN(const int number, DeviceNumber(request, r * request.num_partitions + p, client));
      computation->add_replica_device_ids(number);
    }
  }
  return options.SerializeAsString();
}

}  // namespace pw::device::pjrt
