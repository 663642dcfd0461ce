// Arrays from host memory: make_array_from_host_buffer, make_arrays_from_host_buffer_shards, make_error_arrays.
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/layout.h"
#include "pathways/frontend/convert/specs.h"
#include "pathways/frontend/convert/status.h"
#include "pathways/frontend/handlers/results.h"

namespace pw::frontend {
namespace {

namespace proxy = xla::ifrt::proxy;
using controller::HostShard;

// The spec and source buffers of one array.
struct Source {
  buffers::ArraySpec spec;
  std::vector<HostShard> shards;
};

absl::StatusOr<Source> DecodeWhole(const proxy::MakeArrayFromHostBufferRequest& request) {
  Source source;
  PW_ASSIGN_OR_RETURN(source.spec, SpecFromProto(request.dtype(), request.shape(), request.sharding()));
  if (!source.spec.sharding.fully_replicated()) {
    return absl::InvalidArgumentError(
        "one host buffer can fill an array of one device or a fully replicated one, not a sharded one");
  }
  if (request.has_layout()) {
    PW_ASSIGN_OR_RETURN(source.spec.layout, LayoutFromProto(request.layout(), request.shape().dims_size()));
  }
  HostShard shard;
  shard.host_buffer = request.host_buffer_handle();
  PW_ASSIGN_OR_RETURN(shard.layout, HostLayoutFromProto(request.dtype(), request.shape(),
                                                        request.has_byte_strides() ? &request.byte_strides() : nullptr));
  shard.shards.resize(source.spec.sharding.num_shards());
  std::iota(shard.shards.begin(), shard.shards.end(), 0);
  source.shards.push_back(std::move(shard));
  return source;
}

Action DecodeMakeArray(const IfrtRequest& message) {
  const auto& request = message.make_array_from_host_buffer_request();
  const controller::Handle handle = request.array_handle();
  absl::StatusOr<Source> source = DecodeWhole(request);
  if (!source.ok()) return FailWith(OneHandle(handle), source.status());
  return [source = *std::move(source), handle](ClientSession& session, Reply reply) mutable {
    const controller::Handle result = handle != 0 ? handle : session.session().NewHandle();
    absl::Status status = session.session().MakeArray(result, source.spec, std::move(source.shards));
    IfrtResponse response;
    response.mutable_make_array_from_host_buffer_response()->set_array_handle(result);
    std::move(reply).Finish(status, std::move(response));
  };
}

using ShardsSpec = proxy::MakeArraysFromHostBufferShardsRequest::MakeArraysFromHostBufferShardsSpec;

absl::StatusOr<Source> DecodeShards(const ShardsSpec& spec) {
  Source source;
  PW_ASSIGN_OR_RETURN(source.spec, SpecFromProto(spec.array_spec()));
  if (spec.addressable_shard_indices_size() != spec.host_buffers_size()) {
    return absl::InvalidArgumentError(absl::StrCat(spec.host_buffers_size(), " host buffers come with ",
                                                   spec.addressable_shard_indices_size(), " lists of the shards they fill"));
  }
  for (int i = 0; i < spec.host_buffers_size(); ++i) {
    const auto& buffer = spec.host_buffers(i);
    HostShard& shard = source.shards.emplace_back();
    shard.host_buffer = buffer.host_buffer_handle();
    PW_ASSIGN_OR_RETURN(shard.layout, HostLayoutFromProto(buffer.dtype(), buffer.shape(),
                                                          buffer.has_byte_strides() ? &buffer.byte_strides() : nullptr));
    for (int64_t index : spec.addressable_shard_indices(i).indices()) {
      if (index < 0 || index >= source.spec.sharding.num_shards()) {
        return absl::InvalidArgumentError(absl::StrCat("a host buffer is to fill shard ", index, " of an array of ",
                                                       source.spec.sharding.num_shards(), " shards"));
      }
      shard.shards.push_back(static_cast<int32_t>(index));
    }
  }
  return source;
}

Action DecodeMakeArraysFromShards(const IfrtRequest& message) {
  const auto& request = message.make_arrays_from_host_buffer_shards_request();
  Handles requested = ToHandles(request.array_handles());
  std::vector<Source> sources;
  for (const ShardsSpec& spec : request.specs()) {
    absl::StatusOr<Source> source = DecodeShards(spec);
    if (!source.ok()) return FailWith(std::move(requested), source.status());
    sources.push_back(*std::move(source));
  }
  return [requested = std::move(requested), sources = std::move(sources)](ClientSession& session, Reply reply) mutable {
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), sources.size());
    if (!results.ok()) return std::move(reply).Fail(results.status());
    absl::Status first_error;
    IfrtResponse response;
    auto* payload = response.mutable_make_arrays_from_host_buffer_shards_response();
    for (size_t i = 0; i < sources.size(); ++i) {
      first_error.Update(session.session().MakeArray((*results)[i], sources[i].spec, std::move(sources[i].shards)));
      payload->add_array_handles((*results)[i]);
    }
    std::move(reply).Finish(first_error, std::move(response));
  };
}

Action DecodeMakeErrorArrays(const IfrtRequest& message) {
  const auto& request = message.make_error_arrays_request();
  Handles requested = ToHandles(request.array_handles());
  absl::Status error = StatusFromProto(request.error());
  if (error.ok()) return FailWith(std::move(requested), absl::InvalidArgumentError("make_error_arrays needs an error, not OK"));
  std::vector<buffers::ArraySpec> specs;
  for (const auto& proto : request.array_specs()) {
    absl::StatusOr<buffers::ArraySpec> spec = SpecFromProto(proto);
    if (!spec.ok()) return FailWith(std::move(requested), spec.status());
    specs.push_back(*std::move(spec));
  }
  return [requested = std::move(requested), specs = std::move(specs), error](ClientSession& session, Reply reply) mutable {
    absl::StatusOr<Handles> results = ResultHandles(session, std::move(requested), specs.size());
    if (!results.ok()) return std::move(reply).Fail(results.status());
    absl::Status first_error;
    IfrtResponse response;
    auto* payload = response.mutable_make_error_arrays_response();
    for (size_t i = 0; i < specs.size(); ++i) {
      first_error.Update(session.session().MakeErrorArray((*results)[i], specs[i], error));
      payload->add_array_handles((*results)[i]);
    }
    std::move(reply).Finish(first_error, std::move(response));
  };
}

constexpr Handler kMakeArrayHandlers[] = {
    {IfrtRequest::kMakeArrayFromHostBufferRequest, "make_array_from_host_buffer", DecodeMakeArray, true, false},
    {IfrtRequest::kMakeArraysFromHostBufferShardsRequest, "make_arrays_from_host_buffer_shards", DecodeMakeArraysFromShards, true,
     false},
    {IfrtRequest::kMakeErrorArraysRequest, "make_error_arrays", DecodeMakeErrorArrays, true, false},
};

}  // namespace

absl::Span<const Handler> MakeArrayHandlers() { return kMakeArrayHandlers; }

}  // namespace pw::frontend
