// Session requests about arrays.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::Rearrange;
using ::pathways::v1::SessionEvent;
using ::pathways::v1::SessionRequest;

std::vector<Handle> Handles(const google::protobuf::RepeatedField<uint64_t>& handles) { return {handles.begin(), handles.end()}; }

absl::StatusOr<std::vector<buffers::ArraySpec>> SpecsFrom(const Rearrange& request) {
  std::vector<buffers::ArraySpec> specs;
  for (const auto& proto : request.specs()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFrom(proto));
    specs.push_back(std::move(spec));
  }
  if (specs.size() == static_cast<size_t>(request.results_size())) return specs;
  return absl::InvalidArgumentError(
      absl::StrCat("it describes ", specs.size(), " arrays and has ", request.results_size(), " results"));
}

absl::Status CheckCounts(const Rearrange& request, int results, int arrays) {
  if ((results < 0 || request.results_size() == results) && (arrays < 0 || request.arrays_size() == arrays))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it has ", request.arrays_size(), " arrays and ", request.results_size(), " results, which cannot be"));
}

}  // namespace

absl::Status ServedSession::CarryOutOnArrays(Request& request) {
  const SessionRequest& message = request.message;
  switch (message.kind_case()) {
    case SessionRequest::kMakeArray:
      return MakeArray(message.make_array());
    case SessionRequest::kHostBuffer:
      StoreHostBuffer(message.host_buffer(), std::move(request.payload));
      return absl::OkStatus();
    case SessionRequest::kMakeErrorArray:
      return MakeErrorArray(message.make_error_array());
    case SessionRequest::kAssemble:
      return Assemble(message.assemble());
    case SessionRequest::kDisassemble:
      return Disassemble(message.disassemble());
    case SessionRequest::kReplicatedShard:
      return ReplicatedShard(message.replicated_shard());
    case SessionRequest::kCopy:
      return Copy(message.copy());
    case SessionRequest::kReshard:
      return Reshard(message.reshard());
    case SessionRequest::kRemap:
      return Remap(message.remap());
    case SessionRequest::kBitcast:
      return Bitcast(message.bitcast());
    case SessionRequest::kDelete:
      session_->Delete(Handles(message.delete_().handles())).IgnoreError();
      return absl::OkStatus();
    case SessionRequest::kDestruct:
      session_->Destruct(Handles(message.destruct().handles())).IgnoreError();
      return absl::OkStatus();
    case SessionRequest::kLaneLost:
      return LoseLane(message.lane_lost());
    case SessionRequest::kSave:
      SaveArrays(request.number, message.save());
      return absl::OkStatus();
    case SessionRequest::kLoad:
      return LoadArrays(request.number, message.load());
    default:
      return absl::InternalError("it is not about arrays");
  }
}

absl::Status ServedSession::MakeArray(const ::pathways::v1::MakeArray& request) {
  PW_ASSIGN_OR_RETURN(const buffers::ArraySpec spec, SpecFrom(request.spec()));
  std::vector<HostShard> sources;
  for (const auto& proto : request.sources()) {
    PW_ASSIGN_OR_RETURN(HostShard source, SourceFrom(proto));
    if (source.by_lane && session_->lane_routes() == nullptr) return absl::UnimplementedError("this controller knows no lanes");
    for (int32_t shard : source.shards) {
      if (shard >= 0 && shard < spec.sharding.num_shards()) continue;
      return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " of ", buffers::ToString(spec), " does not exist"));
    }
    sources.push_back(std::move(source));
  }
  session_->MakeArray(request.result(), spec, std::move(sources)).IgnoreError();  // the result holds the error
  return absl::OkStatus();
}

absl::Status ServedSession::MakeErrorArray(const ::pathways::v1::MakeErrorArray& request) {
  PW_ASSIGN_OR_RETURN(const buffers::ArraySpec spec, SpecFrom(request.spec()));
  const absl::Status error = StatusFrom(request.error());
  if (error.ok()) return absl::InvalidArgumentError("an array cannot hold the error OK");
  session_->MakeErrorArray(request.result(), spec, error).IgnoreError();
  return absl::OkStatus();
}

void ServedSession::StoreHostBuffer(const ::pathways::v1::HostBuffer& request, Bytes payload) {
  const Handle buffer = request.buffer();
  const absl::Status error = StatusFrom(request.error());
  if (!error.ok()) return session_->FailHostBuffer(buffer, error);
  if (absl::Status status = session_->StoreHostBuffer(buffer, std::move(payload)); !status.ok())
    session_->FailHostBuffer(buffer, std::move(status));
}

absl::Status ServedSession::LoseLane(const ::pathways::v1::LaneLost& request) {
  if (session_->lane_routes() == nullptr) return absl::UnimplementedError("this controller knows no lanes");
  session_->lane_routes()->OnLaneLost(HostId(request.host()), StatusFrom(request.status()));
  return absl::OkStatus();
}

void ServedSession::SaveArrays(uint64_t number, const ::pathways::v1::SaveArrays& request) {
  SaveRequest save{request.location(), {}};
  for (const auto& array : request.arrays()) save.arrays.push_back({array.name(), array.array()});
  session_->SaveArrays(std::move(save), AnswerStatus(number));
}

absl::Status ServedSession::LoadArrays(uint64_t number, const ::pathways::v1::LoadArrays& request) {
  LoadRequest load{request.location(), {}};
  for (const auto& array : request.arrays()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFrom(array.spec()));
    load.arrays.push_back({array.name(), array.result(), std::move(spec)});
  }
  session_->LoadArrays(std::move(load), AnswerStatus(number));
  return absl::OkStatus();
}

void ServedSession::OnLane(const LaneOffer& offer) {
  SessionEvent event;
  auto& lane = *event.mutable_lane();
  lane.set_host(offer.host.v);
  lane.set_address(offer.address);
  lane.set_key(offer.key);
  lane.set_name(offer.name);
  Tell(std::move(event));
}

void ServedSession::OnLaneClosed(HostId host, const absl::Status& status) {
  SessionEvent event;
  event.mutable_lane_closed()->set_host(host.v);
  ToProto(status, event.mutable_lane_closed()->mutable_status());
  Tell(std::move(event));
}

void ServedSession::OnBufferDone(uint64_t buffer) {
  SessionEvent event;
  event.mutable_buffers_done()->add_buffers(buffer);
  Tell(std::move(event));
}

absl::Status ServedSession::Assemble(const Rearrange& request) {
  PW_RETURN_IF_ERROR(CheckCounts(request, 1, -1));
  PW_ASSIGN_OR_RETURN(const auto specs, SpecsFrom(request));
  session_->Assemble(request.results(0), specs[0], Handles(request.arrays()), SemanticsFrom(request.semantics())).IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::Disassemble(const Rearrange& request) {
  PW_RETURN_IF_ERROR(CheckCounts(request, -1, 1));
  session_->Disassemble(Handles(request.results()), request.arrays(0), SemanticsFrom(request.semantics())).IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::ReplicatedShard(const Rearrange& request) {
  PW_RETURN_IF_ERROR(CheckCounts(request, 1, 1));
  session_->FullyReplicatedShard(request.results(0), request.arrays(0), SemanticsFrom(request.semantics())).IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::Copy(const Rearrange& request) {
  std::optional<std::vector<DeviceId>> devices;
  if (!request.devices().empty()) devices = DevicesFrom(request.devices());
  std::optional<std::string> memory_kind;
  if (request.has_memory_kind()) memory_kind = request.memory_kind();
  session_
      ->Copy(Handles(request.results()), Handles(request.arrays()), std::move(devices), std::move(memory_kind),
             SemanticsFrom(request.semantics()))
      .IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::Reshard(const Rearrange& request) {
  PW_ASSIGN_OR_RETURN(const auto specs, SpecsFrom(request));
  session_->Reshard(Handles(request.results()), Handles(request.arrays()), specs, SemanticsFrom(request.semantics()))
      .IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::Remap(const Rearrange& request) {
  PW_ASSIGN_OR_RETURN(const auto specs, SpecsFrom(request));
  session_
      ->Remap(Handles(request.results()), Handles(request.arrays()), PlanFrom(request.remap()), specs,
              SemanticsFrom(request.semantics()))
      .IgnoreError();
  return absl::OkStatus();
}

absl::Status ServedSession::Bitcast(const Rearrange& request) {
  PW_ASSIGN_OR_RETURN(const auto specs, SpecsFrom(request));
  session_->Bitcast(Handles(request.results()), Handles(request.arrays()), specs, SemanticsFrom(request.semantics()))
      .IgnoreError();
  return absl::OkStatus();
}

}  // namespace pw::session
