// Arrays from arrays: assemble, disassemble, copy, reshard, remap, bitcast, fully replicated shard.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/dtype.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/convert/specs.h"
#include "pathways/frontend/handlers/results.h"

namespace pw::frontend {
namespace {

namespace proxy = xla::ifrt::proxy;
using controller::Handle;

Action DecodeAssemble(const IfrtRequest& message) {
  const auto& request = message.assemble_array_from_single_device_arrays_request();
  const Handle handle = request.result_handle();
  buffers::ArraySpec spec;
  spec.dims.assign(request.shape().dims().begin(), request.shape().dims().end());
  absl::StatusOr<buffers::Sharding> sharding = ShardingFromProto(request.sharding(), spec.dims);
  if (!sharding.ok()) return FailWith(OneHandle(handle), sharding.status());
  spec.sharding = *std::move(sharding);
  if (request.has_dtype()) {
    absl::StatusOr<buffers::DType> dtype = DTypeFromProto(request.dtype());
    if (!dtype.ok()) return FailWith(OneHandle(handle), dtype.status());
    spec.dtype = *dtype;
  }
  Handles singles = ToHandles(request.single_device_array_handles());
  if (!request.has_dtype() && singles.empty()) {
    return FailWith(OneHandle(handle), absl::InvalidArgumentError("an array assembled of no arrays needs an element type"));
  }
  return [handle, spec = std::move(spec), singles = std::move(singles), semantics = SemanticsFromProto(request.copy_semantics())](
             ClientSession& session, Reply reply) mutable {
    const Handle result = handle != 0 ? handle : session.session().NewHandle();
    if (spec.dtype == buffers::DType::kInvalid) {
      absl::StatusOr<buffers::ArraySpec> first = session.session().Spec(singles[0]);
      if (!first.ok()) {
        session.Poison({result}, first.status());
        return std::move(reply).Fail(first.status());
      }
      spec.dtype = first->dtype;
    }
    IfrtResponse response;
    response.mutable_assemble_array_from_single_device_arrays_response()->set_array_handle(result);
    std::move(reply).Finish(session.session().Assemble(result, spec, singles, semantics), std::move(response));
  };
}

Action DecodeDisassemble(const IfrtRequest& message) {
  const auto& request = message.disassemble_into_single_device_arrays_request();
  return [array = request.array_handle(), requested = ToHandles(request.result_handles()),
          semantics = SemanticsFromProto(request.copy_semantics())](ClientSession& session, Reply reply) mutable {
    size_t count = requested.size();
    if (requested.empty()) {
      absl::StatusOr<buffers::ArraySpec> spec = session.session().Spec(array);
      if (!spec.ok()) return std::move(reply).Fail(spec.status());
      count = spec->sharding.num_shards();
    }
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), count);
    if (!results.ok()) return std::move(reply).Fail(results.status());
    IfrtResponse response;
    response.mutable_disassemble_into_single_device_arrays_response()->mutable_array_handles()->Assign(results->begin(),
                                                                                                       results->end());
    std::move(reply).Finish(session.session().Disassemble(*results, array, semantics), std::move(response));
  };
}

Action DecodeFullyReplicatedShard(const IfrtRequest& message) {
  const auto& request = message.fully_replicated_shard_request();
  return [array = request.array_handle(), handle = request.result_handle(),
          semantics = SemanticsFromProto(request.copy_semantics())](ClientSession& session, Reply reply) {
    const Handle result = handle != 0 ? handle : session.session().NewHandle();
    IfrtResponse response;
    response.mutable_fully_replicated_shard_response()->set_array_handle(result);
    session.fetches_ahead().OnReplicatedShard(result, array);
    std::move(reply).Finish(session.session().FullyReplicatedShard(result, array, semantics), std::move(response));
  };
}

Action DecodeCopy(const IfrtRequest& message) {
  const auto& request = message.copy_arrays_request();
  std::optional<std::vector<DeviceId>> devices;
  if (request.device_ids_size() > 0) {
    devices.emplace();
    for (int32_t id : request.device_ids()) devices->push_back(DeviceId(id));
  }
  std::optional<std::string> memory_kind;
  if (request.has_memory_kind()) memory_kind = request.memory_kind();
  return [arrays = ToHandles(request.array_handles()), requested = ToHandles(request.result_handles()),
          devices = std::move(devices), memory_kind = std::move(memory_kind),
          semantics = SemanticsFromProto(request.copy_semantics())](ClientSession& session, Reply reply) mutable {
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), arrays.size());
    if (!results.ok()) return std::move(reply).Fail(results.status());
    IfrtResponse response;
    response.mutable_copy_arrays_response()->mutable_array_handles()->Assign(results->begin(), results->end());
    std::move(reply).Finish(session.session().Copy(*results, arrays, std::move(devices), std::move(memory_kind), semantics),
                            std::move(response));
  };
}

absl::StatusOr<std::vector<buffers::ArraySpec>> DecodeSpecs(
    const google::protobuf::RepeatedPtrField<xla::ifrt::ArraySpecProto>& protos, int count) {
  if (protos.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat("the request has ", count, " arrays but ", protos.size(), " array specs"));
  }
  std::vector<buffers::ArraySpec> specs;
  for (const auto& proto : protos) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFromProto(proto));
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Decodes a request that turns arrays into others, with a spec for each.
template <class Request, class Response, class Method>
Action DecodeInto(const Request& request, Response* (IfrtResponse::*answer)(), Method method) {
  auto specs = DecodeSpecs(request.array_specs(), request.array_handles_size());
  Handles requested = ToHandles(request.result_handles());
  if (!specs.ok()) return FailWith(std::move(requested), specs.status());
  return [arrays = ToHandles(request.array_handles()), requested = std::move(requested), specs = *std::move(specs),
          semantics = SemanticsFromProto(request.copy_semantics()), answer, method](ClientSession& session, Reply reply) mutable {
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), arrays.size());
    if (!results.ok()) return std::move(reply).Fail(results.status());
    IfrtResponse response;
    (response.*answer)()->mutable_array_handles()->Assign(results->begin(), results->end());
    std::move(reply).Finish((session.session().*method)(*results, arrays, specs, semantics), std::move(response));
  };
}

Action DecodeReshard(const IfrtRequest& message) {
  return DecodeInto(message.reshard_arrays_request(), &IfrtResponse::mutable_reshard_arrays_response,
                    &controller::Session::Reshard);
}

Action DecodeBitcast(const IfrtRequest& message) {
  return DecodeInto(message.bitcast_arrays_request(), &IfrtResponse::mutable_bitcast_arrays_response,
                    &controller::Session::Bitcast);
}

Action DecodeRemap(const IfrtRequest& message) {
  const auto& request = message.remap_arrays_request();
  Handles requested = ToHandles(request.result_handles());
  auto plan = RemapPlanFromProto(request.plan());
  if (!plan.ok()) return FailWith(std::move(requested), plan.status());
  auto specs = DecodeSpecs(request.plan().output_specs(), request.plan().output_specs_size());
  if (!specs.ok()) return FailWith(std::move(requested), specs.status());
  return [arrays = ToHandles(request.array_handles()), requested = std::move(requested), plan = *std::move(plan),
          specs = *std::move(specs),
          semantics = SemanticsFromProto(request.copy_semantics())](ClientSession& session, Reply reply) mutable {
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), specs.size());
    if (!results.ok()) return std::move(reply).Fail(results.status());
    IfrtResponse response;
    response.mutable_remap_arrays_response()->mutable_array_handles()->Assign(results->begin(), results->end());
    std::move(reply).Finish(session.session().Remap(*results, arrays, plan, specs, semantics), std::move(response));
  };
}

constexpr Handler kArrayHandlers[] = {
    {IfrtRequest::kAssembleArrayFromSingleDeviceArraysRequest, "assemble_array_from_single_device_arrays", DecodeAssemble, true,
     false},
    {IfrtRequest::kDisassembleIntoSingleDeviceArraysRequest, "disassemble_into_single_device_arrays", DecodeDisassemble, true,
     false},
    {IfrtRequest::kFullyReplicatedShardRequest, "fully_replicated_shard", DecodeFullyReplicatedShard, true, false},
    {IfrtRequest::kCopyArraysRequest, "copy_arrays", DecodeCopy, true, false},
    {IfrtRequest::kReshardArraysRequest, "reshard_arrays", DecodeReshard, true, false},
    {IfrtRequest::kBitcastArraysRequest, "bitcast_arrays", DecodeBitcast, true, false},
    {IfrtRequest::kRemapArraysRequest, "remap_arrays", DecodeRemap, true, false},
};

}  // namespace

absl::Span<const Handler> ArrayHandlers() { return kArrayHandlers; }

}  // namespace pw::frontend
