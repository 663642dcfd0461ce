#include "pathways/device/pjrt/compile_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "xla/compile_options.pb.h"

namespace pw::device::pjrt {

namespace {

// Returns the plugin's id of a device of this process.
absl::StatusOr<int> LocalId(const Client& client, int ordinal) {
  const int devices = static_cast<int>(client.devices().size());
  if (ordinal >= 0 && ordinal < devices) return client.devices()[ordinal].info.runtime_id;
  return absl::InvalidArgumentError(absl::StrCat("there is no local device ", ordinal, "; this host has ", devices));
}

// Returns the plugin's id of the device at each position.
absl::StatusOr<std::vector<int>> DeviceIds(const CompileRequest& request, const Client& client) {
  std::vector<int> ids;
  if (request.positions.empty()) {
    for (const int ordinal : request.devices) {
      PW_ASSIGN_OR_RETURN(ids.emplace_back(), LocalId(client, ordinal));
    }
    return ids;
  }
  std::vector<std::string> addresses;
  for (const Position& position : request.positions) addresses.push_back(position.process);
  PW_ASSIGN_OR_RETURN(const std::vector<int> processes, client.processes().NumbersOf(addresses));
  for (size_t p = 0; p < addresses.size(); ++p) {
    const int ordinal = request.positions[p].device;
    const bool here = addresses[p].empty();
    PW_ASSIGN_OR_RETURN(ids.emplace_back(), here ? LocalId(client, ordinal) : client.IdOf(processes[p], ordinal));
  }
  return ids;
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
  PW_ASSIGN_OR_RETURN(const std::vector<int> ids, DeviceIds(request, client));
  for (int p = 0; p < request.num_partitions; ++p) {
    auto* computation = assignment->add_computation_devices();
    for (int r = 0; r < request.num_replicas; ++r) computation->add_replica_device_ids(ids[r * request.num_partitions + p]);
  }
  return options.SerializeAsString();
}

}  // namespace pw::device::pjrt
