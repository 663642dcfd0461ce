// Operations on arrays: each is sent to the controller, and its results' specs are noted here.
#include <utility>

#include "pathways/client/remote_session.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using buffers::ArraySpec;
using ::pathways::v1::SessionRequest;
using SpecPtr = ArrayTable::SpecPtr;

SpecPtr Shared(ArraySpec spec) { return std::make_shared<const ArraySpec>(std::move(spec)); }

}  // namespace

absl::Status RemoteSession::Rearrange(SessionRequest request, ::pathways::v1::Rearrange* body, Handles results, Handles arrays,
                                      CopySemantics semantics) {
  body->mutable_results()->Add(results.begin(), results.end());
  body->mutable_arrays()->Add(arrays.begin(), arrays.end());
  body->set_semantics(session::ToProto(semantics));
  const uint64_t number = link_->Send(std::move(request));
  arrays_.SetRequest(results, number);
  if (semantics == CopySemantics::kDonateInput) arrays_.Delete(arrays, number).IgnoreError();
  return ended_;
}

absl::Status RemoteSession::RearrangeAs(SessionRequest request, ::pathways::v1::Rearrange* body, Handles results, Handles arrays,
                                        Specs specs, CopySemantics semantics) {
  for (const ArraySpec& spec : specs) session::ToProto(spec, body->add_specs());
  for (size_t i = 0; i < results.size(); ++i) arrays_.Insert(results[i], i < specs.size() ? Shared(specs[i]) : nullptr);
  return Rearrange(std::move(request), body, results, arrays, semantics);
}

absl::Status RemoteSession::MakeArray(Handle result, const ArraySpec& spec, std::vector<session::HostShard> sources) {
  SessionRequest request;
  auto& make = *request.mutable_make_array();
  make.set_result(result);
  session::ToProto(spec, make.mutable_spec());
  if (spec.dtype == buffers::DType::kString) link_->SetNotRestorable("it has arrays of strings");
  std::vector<Handle> in_frames;
  for (session::HostShard& source : sources) {
    source.by_lane = lanes_->buffers().Make(source.host_buffer, source.layout);
    if (!source.by_lane) in_frames.push_back(source.host_buffer);
    session::ToProto(source, make.add_sources());
  }
  const uint64_t number = link_->Send(std::move(request));
  if (link_->restorable()) link_->kept().NoteMaker(number, std::move(in_frames));
  arrays_.Insert(result, Shared(spec), number, NameOf(number, 0));
  return ended_;
}

absl::Status RemoteSession::MakeErrorArray(Handle result, const ArraySpec& spec, absl::Status error) {
  SessionRequest request;
  auto& make = *request.mutable_make_error_array();
  make.set_result(result);
  session::ToProto(spec, make.mutable_spec());
  session::ToProto(error, make.mutable_error());
  const uint64_t number = link_->Send(std::move(request));
  arrays_.InsertError(result, Shared(spec), number, std::move(error));
  return ended_;
}

absl::Status RemoteSession::Assemble(Handle result, const ArraySpec& spec, Handles singles, CopySemantics semantics) {
  SessionRequest request;
  auto* body = request.mutable_assemble();
  return RearrangeAs(std::move(request), body, {result}, singles, {&spec, 1}, semantics);
}

absl::Status RemoteSession::Disassemble(Handles results, Handle array, CopySemantics semantics) {
  const SpecPtr spec = arrays_.Find(array);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool known = spec != nullptr && static_cast<int>(i) < spec->sharding.num_shards();
    arrays_.Insert(results[i], known ? Shared(buffers::SingleShardSpec(*spec, static_cast<int>(i))) : nullptr);
  }
  SessionRequest request;
  return Rearrange(std::move(request), request.mutable_disassemble(), results, {array}, semantics);
}

absl::Status RemoteSession::FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) {
  const SpecPtr spec = arrays_.Find(array);
  arrays_.Insert(result, spec == nullptr ? nullptr : Shared(buffers::SingleShardSpec(*spec, 0)));
  SessionRequest request;
  return Rearrange(std::move(request), request.mutable_replicated_shard(), {result}, {array}, semantics);
}

absl::Status RemoteSession::Copy(Handles results, Handles arrays, std::optional<std::vector<DeviceId>> devices,
                                 std::optional<std::string> memory_kind, CopySemantics semantics) {
  SessionRequest request;
  auto* body = request.mutable_copy();
  if (devices.has_value()) session::ToProto(*devices, body->mutable_devices());
  if (memory_kind.has_value()) body->set_memory_kind(*memory_kind);
  for (size_t i = 0; i < results.size(); ++i) {
    const SpecPtr from = i < arrays.size() ? arrays_.Find(arrays[i]) : nullptr;
    if (from == nullptr || (devices.has_value() && static_cast<int>(devices->size()) != from->sharding.num_shards())) {
      arrays_.Insert(results[i], nullptr);
      continue;
    }
    ArraySpec spec = *from;
    if (devices.has_value()) spec.sharding = spec.sharding.WithDevices(*devices);
    if (memory_kind.has_value()) spec.sharding = spec.sharding.WithMemoryKind(*memory_kind);
    arrays_.Insert(results[i], Shared(std::move(spec)));
  }
  return Rearrange(std::move(request), body, results, arrays, semantics);
}

absl::Status RemoteSession::Reshard(Handles results, Handles arrays, Specs specs, CopySemantics semantics) {
  SessionRequest request;
  auto* body = request.mutable_reshard();
  return RearrangeAs(std::move(request), body, results, arrays, specs, semantics);
}

absl::Status RemoteSession::Remap(Handles results, Handles arrays, const buffers::RemapPlan& plan, Specs specs,
                                  CopySemantics semantics) {
  SessionRequest request;
  auto* body = request.mutable_remap();
  session::ToProto(plan, body->mutable_remap());
  return RearrangeAs(std::move(request), body, results, arrays, specs, semantics);
}

absl::Status RemoteSession::Bitcast(Handles results, Handles arrays, Specs specs, CopySemantics semantics) {
  SessionRequest request;
  auto* body = request.mutable_bitcast();
  return RearrangeAs(std::move(request), body, results, arrays, specs, semantics);
}

void RemoteSession::WhenReady(Handles arrays, session::StatusCallback done) {
  SessionRequest request;
  request.mutable_await_ready()->mutable_handles()->Add(arrays.begin(), arrays.end());
  AskStatus(std::move(request), std::move(done));
}

void RemoteSession::SaveArrays(session::SaveRequest save, session::StatusCallback done) {
  SessionRequest request;
  auto& body = *request.mutable_save();
  body.set_location(std::move(save.location));
  for (auto& array : save.arrays) {
    auto& proto = *body.add_arrays();
    proto.set_name(std::move(array.name));
    proto.set_array(array.array);
  }
  AskStatus(std::move(request), std::move(done));
}

void RemoteSession::LoadArrays(session::LoadRequest load, session::StatusCallback done) {
  SessionRequest request;
  std::vector<Handle> results;
  auto& body = *request.mutable_load();
  body.set_location(std::move(load.location));
  for (auto& array : load.arrays) {
    auto& proto = *body.add_arrays();
    proto.set_name(std::move(array.name));
    proto.set_result(array.result);
    session::ToProto(array.spec, proto.mutable_spec());
    arrays_.Insert(array.result, Shared(std::move(array.spec)));
    results.push_back(array.result);
  }
  arrays_.SetRequest(results, Ask(std::move(request), ReadingStatus(std::move(done))));
}

absl::Status RemoteSession::Delete(Handles arrays) {
  SessionRequest request;
  request.mutable_delete_()->mutable_handles()->Add(arrays.begin(), arrays.end());
  return arrays_.Delete(arrays, link_->Send(std::move(request)));
}

absl::Status RemoteSession::Destruct(Handles arrays) {
  SessionRequest request;
  request.mutable_destruct()->mutable_handles()->Add(arrays.begin(), arrays.end());
  const uint64_t number = link_->Send(std::move(request));
  return arrays_.Erase(arrays, link_->restorable() ? number : 0);
}

absl::StatusOr<ArraySpec> RemoteSession::Spec(Handle array) {
  absl::StatusOr<SpecPtr> spec = arrays_.Spec(array);
  if (!spec.ok()) return spec.status();
  return **spec;
}

}  // namespace pw::client
