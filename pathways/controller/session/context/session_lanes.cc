#include "pathways/controller/session/context/session_lanes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::controller {

absl::Status SessionLanes::Check(HostId host) const {
  if (listener_.expired())
    return absl::FailedPreconditionError("this client cannot open lanes: it must send its arrays with its requests");
  if (!fabric_->lane_address(host).empty()) return absl::OkStatus();
  const resource::Host* known = fabric_->topology().FindHost(host);
  return absl::FailedPreconditionError(absl::StrCat(known == nullptr ? ToString(host) : fabric_->topology().Describe(*known),
                                                    " has no address for clients' lanes: start its worker with --listen-lanes"));
}

absl::Status SessionLanes::CheckSource(const buffers::ArraySpec& spec, const session::HostShard& source) const {
  if (spec.dtype == buffers::DType::kString)
    return absl::InvalidArgumentError("string arrays cannot be sent on a lane: send them with the request");
  if (HasBuffer(source.host_buffer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("host buffer ", source.host_buffer, " was sent with a request, and is named as one that comes on a lane"));
  }
  for (int32_t shard : source.shards)
    PW_RETURN_IF_ERROR(Check(fabric_->topology().FindDevice(spec.sharding.devices()[shard])->host));
  return absl::OkStatus();
}

void SessionLanes::Open(HostId host) {
  if (!open_.insert(host).second) return;
  const std::string key = fabric_->MakeKey();
  ::pathways::v1::Command command;
  command.mutable_admit_lane()->set_session(id_.v);
  command.mutable_admit_lane()->set_key(key);
  command.mutable_admit_lane()->set_grace_seconds(absl::ToDoubleSeconds(fabric_->client_grace()));
  fabric_->outbox().Add(host, std::move(command));
  if (auto listener = listener_.lock())
    listener->OnLane({host, fabric_->lane_address(host), key, fabric_->topology().Describe(*fabric_->topology().FindHost(host))});
}

void SessionLanes::OpenForCalls(const std::vector<HostId>& hosts) {
  for (HostId host : hosts) {
    if (Check(host).ok()) Open(host);
  }
}

void SessionLanes::OnHostLost(HostId host, const absl::Status& error) {
  if (open_.erase(host) == 0) return;
  if (auto listener = listener_.lock()) listener->OnLaneClosed(host, error);
}

void SessionLanes::OnLaneLost(HostId host, const absl::Status& error) {
  if (!open_.contains(host)) return;
  ::pathways::v1::Command command;
  command.mutable_fail_lane()->set_session(id_.v);
  session::ToProto(error.ok() ? absl::UnavailableError("the client cannot connect to this host") : error,
                   command.mutable_fail_lane()->mutable_status());
  fabric_->outbox().Add(host, std::move(command));
}

void SessionLanes::Leave(uint64_t buffer) {
  auto it = buffers_.find(buffer);
  if (it == buffers_.end() || --it->second > 0) return;
  buffers_.erase(it);
  if (auto listener = listener_.lock()) listener->OnBufferDone(buffer);
}

}  // namespace pw::controller
