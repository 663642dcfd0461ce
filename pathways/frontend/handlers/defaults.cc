// Requests for defaults, and host callbacks, which no released client can serve.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/layout.h"

namespace pw::frontend {
namespace {

// Assigns the first devices, replica-major.
Action DecodeDefaultDeviceAssignment(const IfrtRequest& message) {
  const auto& request = message.get_default_device_assignment_request();
  return [replicas = request.num_replicas(), partitions = request.num_partitions()](ClientSession& session, Reply reply) {
    const auto& devices = session.cluster_info().devices;
    if (replicas == 0 || partitions == 0 || replicas > devices.size() || partitions > devices.size() / replicas) {
      return std::move(reply).Fail(
          absl::InvalidArgumentError(absl::StrCat("no default device assignment of ", replicas, " replicas x ", partitions,
                                                  " partitions on ", devices.size(), " devices")));
    }
    IfrtResponse response;
    auto& assignment = *response.mutable_get_default_device_assignment_response()->mutable_device_assignment();
    assignment.set_replica_count(static_cast<int32_t>(replicas));
    assignment.set_computation_count(static_cast<int32_t>(partitions));
    for (uint64_t p = 0; p < partitions; ++p) {
      auto& computation = *assignment.add_computation_devices();
      for (uint64_t r = 0; r < replicas; ++r) computation.add_replica_device_ids(devices[r * partitions + p].id.v);
    }
    std::move(reply).Send(std::move(response));
  };
}

// Always answers: a client aborts on an error, or on text that it cannot parse.
Action DecodeDefaultLayout(const IfrtRequest& message) {
  return [rank = message.get_default_layout_request().dims_size()](ClientSession&, Reply reply) {
    IfrtResponse response;
    response.mutable_get_default_layout_response()->set_serialized_pjrt_layout(RowMajorLayoutText(rank));
    std::move(reply).Send(std::move(response));
  };
}

Action DecodeHostCallback(const IfrtRequest&) {
  return [](ClientSession&, Reply reply) {
    std::move(reply).Fail(absl::NotFoundError("no such host callback: this server compiles no program that has one"));
  };
}

constexpr Handler kDefaultsHandlers[] = {
    {IfrtRequest::kGetDefaultDeviceAssignmentRequest, "get_default_device_assignment", DecodeDefaultDeviceAssignment},
    {IfrtRequest::kGetDefaultLayoutRequest, "get_default_layout", DecodeDefaultLayout},
    {IfrtRequest::kLoadedHostCallbackPollRequest, "loaded_host_callback_poll", DecodeHostCallback},
    {IfrtRequest::kLoadedHostCallbackReturnRequest, "loaded_host_callback_return", DecodeHostCallback},
};

}  // namespace

absl::Span<const Handler> DefaultsHandlers() { return kDefaultsHandlers; }

}  // namespace pw::frontend
