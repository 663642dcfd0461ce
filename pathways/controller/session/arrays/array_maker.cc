#include "pathways/controller/session/arrays/array_maker.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/dispatch/plan_arrays.h"

namespace pw::controller {
namespace {

absl::StatusOr<int64_t> BytesOf(const HostLayout& layout) {
  const int width = buffers::HostBytes(layout.dtype);
  if (layout.byte_strides.has_value()) {
    PW_ASSIGN_OR_RETURN(const buffers::StridedExtent extent, buffers::SpannedRegion(width, layout.dims, *layout.byte_strides));
    return extent.bytes;
  }
  return buffers::DenseBytes(layout.dtype, layout.dims);
}

// Checks that every shard is fed exactly once, by a buffer of its shape.
absl::Status CheckCoverage(const buffers::ArraySpec& spec, const std::vector<HostShard>& sources) {
  std::vector<bool> fed(spec.sharding.num_shards(), false);
  for (const HostShard& source : sources) {
    for (int32_t shard : source.shards) {
      PW_ASSIGN_OR_RETURN(const buffers::Dims dims, spec.sharding.ShardDims(spec.dims, shard));
      if (fed[shard]) return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " has two host buffers as its source"));
      fed[shard] = true;
      if (dims == source.layout.dims) continue;
      return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " of ", buffers::ToString(spec), " has shape [",
                                                     absl::StrJoin(dims, ","), "], but its host buffer has shape [",
                                                     absl::StrJoin(source.layout.dims, ","), "]"));
    }
  }
  const auto hungry = std::find(fed.begin(), fed.end(), false);
  if (hungry == fed.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no host buffer has the contents of shard ", hungry - fed.begin(), " of ", buffers::ToString(spec)));
}

}  // namespace

absl::Status ArrayMaker::CheckSources(const ArraySpec& spec, const std::vector<HostShard>& sources,
                                      std::vector<int64_t>* bytes) const {
  PW_RETURN_IF_ERROR(CheckCoverage(spec, sources));
  const bool strings = spec.dtype == buffers::DType::kString;
  if (!strings && buffers::HostBytes(spec.dtype) == 0) {
    return absl::UnimplementedError(
        absl::StrCat("arrays of type ", std::string(buffers::Name(spec.dtype)), " cannot be made from host memory"));
  }
  absl::flat_hash_set<Handle> seen;
  for (const HostShard& source : sources) {
    if (source.layout.dtype != spec.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("a host buffer of type ", std::string(buffers::Name(source.layout.dtype)),
                                                     " for an array of ", std::string(buffers::Name(spec.dtype))));
    }
    if (source.host_buffer == 0 || !seen.insert(source.host_buffer).second || host_buffers_->IsAwaited(source.host_buffer)) {
      return absl::InvalidArgumentError(absl::StrCat("host buffer ", source.host_buffer, " is 0, or is named by two sources"));
    }
    if (source.by_lane) PW_RETURN_IF_ERROR(lanes_->CheckSource(spec, source));
    if (host_buffers_->IsFilling(source.host_buffer)) {
      return absl::InvalidArgumentError(absl::StrCat("host buffer ", source.host_buffer, " is still being filled by a copy"));
    }
    bytes->push_back(0);
    const StagedBuffer* staged = host_buffers_->FindStaged(source.host_buffer);
    if (staged != nullptr && !staged->error.ok()) return staged->error;
    if (strings) continue;
    PW_ASSIGN_OR_RETURN(bytes->back(), BytesOf(source.layout));
    if (staged != nullptr && static_cast<int64_t>(staged->data.size()) != bytes->back()) {
      return absl::InvalidArgumentError(absl::StrCat("host buffer ", source.host_buffer, " has ", staged->data.size(),
                                                     " bytes, but its shape needs ", bytes->back()));
    }
  }
  return absl::OkStatus();
}

void ArrayMaker::PutSource(const Record& record, const HostShard& source, int64_t bytes) {
  dispatch::PutCall call;
  call.session = context_->id();
  call.array = record->id();
  call.spec = &record->spec();
  call.shard_dims = source.layout.dims;
  call.byte_strides = &source.layout.byte_strides;
  call.shards = source.shards;
  call.transfer = context_->names().now().NextId();
  call.total_bytes = bytes;
  if (source.by_lane && bytes > 0) {
    call.lane_buffer = source.host_buffer;
    lanes_->Enter(call.lane_buffer);
    auto name_op = [&, buffer = call.lane_buffer](HostId host) {
      lanes_->Open(host);
      lanes_->Enter(buffer);
      return context_->NameOp(host, {record}, [this, alive = context_->alive(), buffer](const absl::Status&, auto) {
        if (!alive.expired()) lanes_->Leave(buffer);
      });
    };
    dispatch::PlanPut(fabric_->topology(), call, std::nullopt, name_op, fabric_->outbox());
    lanes_->Leave(call.lane_buffer);
    return fabric_->gangs().Await(record);
  }
  absl::StatusOr<Bytes> data = host_buffers_->Take(source.host_buffer);
  std::optional<Bytes> with_command;
  if (data.ok() && data->size() <= kChunkBytes) with_command = *data;
  std::vector<HostId> hosts = dispatch::PlanPut(
      fabric_->topology(), call, with_command, [&](HostId host) { return context_->NameOp(host, {record}); }, fabric_->outbox());
  if (!data.ok()) {
    host_buffers_->Await(source.host_buffer, AwaitedBuffer{record, nullptr, std::move(hosts), call.transfer, bytes});
    fabric_->gangs().Await(record);
  } else if (!with_command.has_value()) {
    for (HostId host : hosts) fabric_->SendBytes(host, context_->id(), call.transfer, *data, hosts.size() == 1);
    fabric_->gangs().Await(record);
  }
}

absl::Status ArrayMaker::MakeStrings(Handle result, const SpecPtr& spec, const std::vector<HostShard>& sources) {
  StringCells cells(spec->sharding.num_shards());
  for (const HostShard& source : sources) {
    auto cell = std::make_shared<StringCell>();
    if (absl::StatusOr<Bytes> data = host_buffers_->Take(source.host_buffer); data.ok()) {
      cell->data = *std::move(data);
    } else {
      host_buffers_->Await(source.host_buffer, AwaitedBuffer{{}, cell});
    }
    for (int32_t shard : source.shards) cells[shard] = cell;
  }
  context_->InsertStrings(result, spec, std::move(cells));
  return absl::OkStatus();
}

absl::Status ArrayMaker::TryMake(Handle result, const SpecPtr& spec, const std::vector<HostShard>& sources) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew({result}));
  PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
  std::vector<int64_t> bytes;
  PW_RETURN_IF_ERROR(CheckSources(*spec, sources, &bytes));
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({1 + sources.size(), sources.size()}));
  if (spec->dtype == buffers::DType::kString) return MakeStrings(result, spec, sources);
  Record record = context_->NewRecord(spec);
  for (size_t i = 0; i < sources.size(); ++i) PutSource(record, sources[i], bytes[i]);
  record->OnDone(absl::OkStatus());
  context_->arrays().Insert(result, {std::move(record), spec, nullptr, false});
  return absl::OkStatus();
}

// A failed request consumes its host buffers too, including those that arrive later.
void ArrayMaker::DiscardSources(const std::vector<HostShard>& sources) {
  for (const HostShard& source : sources) {
    if (source.by_lane) {  // no host will ask for it
      host_buffers_->Take(source.host_buffer).status().IgnoreError();
      if (lanes_->HasBuffer(source.host_buffer)) continue;
      lanes_->Enter(source.host_buffer);
      lanes_->Leave(source.host_buffer);
      continue;
    }
    host_buffers_->Discard(source.host_buffer);
  }
}

absl::Status ArrayMaker::Make(Handle result, const ArraySpec& spec, const std::vector<HostShard>& sources) {
  auto shared = std::make_shared<const ArraySpec>(spec);
  const absl::Status status = TryMake(result, shared, sources);
  if (!status.ok()) DiscardSources(sources);
  host_buffers_->Admit();
  if (status.ok()) return status;
  return context_->Fail({result}, {shared}, status);
}

absl::Status ArrayMaker::MakeError(Handle result, const ArraySpec& spec, absl::Status error) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew({result}));
  auto shared = std::make_shared<const ArraySpec>(spec);
  if (error.ok()) error = absl::InvalidArgumentError("the client bound an error without a code to an array");
  context_->InsertError(result, std::move(shared), error);
  return absl::OkStatus();
}

}  // namespace pw::controller
