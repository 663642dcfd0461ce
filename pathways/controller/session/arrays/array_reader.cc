#include "pathways/controller/session/arrays/array_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"

namespace pw::controller {
namespace {

absl::StatusOr<int64_t> BytesToFetch(const buffers::ArraySpec& spec, const std::optional<buffers::Dims>& byte_strides) {
  PW_ASSIGN_OR_RETURN(const buffers::Dims dims, spec.sharding.ShardDims(spec.dims, 0));
  if (!byte_strides.has_value() || buffers::HostBytes(spec.dtype) == 0) return buffers::DenseBytes(spec.dtype, dims);
  return buffers::BytesToRead(buffers::HostBytes(spec.dtype), dims, *byte_strides);
}

::pathways::v1::Command FetchCommand(uint64_t id, const ArrayEntry& entry, const std::optional<buffers::Dims>& byte_strides) {
  ::pathways::v1::Command command;
  auto& fetch = *command.mutable_fetch();
  fetch.set_fetch(id);
  fetch.set_array(entry.record->id().v);
  if (!byte_strides.has_value()) return command;
  fetch.set_has_byte_strides(true);
  fetch.mutable_byte_strides()->Add(byte_strides->begin(), byte_strides->end());
  return command;
}

}  // namespace

void ArrayReader::WhenReady(absl::Span<const Handle> arrays, StatusCallback done) {
  std::vector<Record> records;
  bool settled = true;
  absl::Status error;
  for (Handle handle : arrays) {
    absl::StatusOr<ArrayEntry*> entry = context_->arrays().Live(handle);
    if (!entry.ok()) return context_->Answer(std::move(done), entry.status());
    settled &= (*entry)->record->settled();
    error.Update((*entry)->record->status());
    records.push_back((*entry)->record);
    if ((*entry)->effects == nullptr) continue;
    settled &= (*entry)->effects->settled();
    records.push_back((*entry)->effects);
  }
  if (settled) return context_->Answer(std::move(done), error);
  reads_->Watch(records, [this, done = std::move(done)](absl::Status status) mutable {
    context_->Answer(std::move(done), std::move(status));
  });
}

absl::StatusOr<const ArrayEntry*> ArrayReader::CheckFetch(Handle array, const std::optional<buffers::Dims>& byte_strides,
                                                          int64_t* bytes) {
  PW_ASSIGN_OR_RETURN(const ArrayEntry* entry, context_->arrays().Live(array));
  if (entry->is_error()) return entry->record->status();
  if (entry->spec->sharding.num_tiles() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(buffers::ToString(*entry->spec), " is cut into ", entry->spec->sharding.num_tiles(),
                     " pieces: only an array that one device holds whole can be copied to a host buffer"));
  }
  PW_ASSIGN_OR_RETURN(*bytes, BytesToFetch(*entry->spec, byte_strides));
  return entry;
}

void ArrayReader::CopyToHostBuffer(Handle array, Handle host_buffer, const std::optional<buffers::Dims>& byte_strides,
                                   StatusCallback done) {
  int64_t bytes = 0;
  const ArrayEntry* entry = nullptr;
  auto check = [&]() -> absl::Status {
    PW_ASSIGN_OR_RETURN(entry, CheckFetch(array, byte_strides, &bytes));
    return host_buffers_->CheckFill(host_buffer, bytes);
  };
  if (absl::Status status = check(); !status.ok()) return context_->Answer(std::move(done), status);
  host_buffers_->BeginFill(host_buffer, std::move(done));
  if (entry->strings != nullptr) return FetchStrings(host_buffer, *entry);
  const HostId host = fabric_->topology().FindDevice(entry->spec->sharding.devices()[0])->host;
  ::pathways::v1::Command command = FetchCommand(context_->names().now().NextId(), *entry, byte_strides);
  fabric_->fetches().Add(command.fetch().fetch(), host, context_->id(), bytes,
                         [this, host_buffer, effects = entry->effects](absl::StatusOr<Bytes> result) {
                           if (!result.ok() || effects == nullptr || effects->settled())
                             return host_buffers_->EndFill(host_buffer, std::move(result));
                           reads_->Hold({effects}, [this, host_buffer, result = std::move(result)](absl::Status status) mutable {
                             if (!status.ok()) result = status;
                             host_buffers_->EndFill(host_buffer, std::move(result));
                           });
                         });
  fabric_->outbox().Add(host, std::move(command));
}

void ArrayReader::FetchByLane(Handle array, const session::LaneFetch& fetch, ResultCallback<session::FetchedArray> done) {
  int64_t bytes = 0;
  const absl::StatusOr<const ArrayEntry*> entry = CheckFetch(array, fetch.byte_strides, &bytes);
  if (!entry.ok()) return context_->Answer<session::FetchedArray>(std::move(done), entry.status());
  if ((*entry)->strings != nullptr) {
    return reads_->Hold({(*entry)->record}, [this, cell = (*(*entry)->strings)[0],
                                             done = std::move(done)](absl::Status status) mutable {
      using Result = absl::StatusOr<session::FetchedArray>;
      context_->Answer(std::move(done), status.ok() ? Result(session::FetchedArray{*cell->data, std::nullopt}) : Result(status));
    });
  }
  const HostId host = fabric_->topology().FindDevice((*entry)->spec->sharding.devices()[0])->host;
  ::pathways::v1::Command command = FetchCommand(context_->names().now().NextId(), **entry, fetch.byte_strides);
  const bool by_lane = bytes > 0 && static_cast<uint64_t>(bytes) > fetch.above;
  if (by_lane) {
    if (absl::Status status = lanes_->Check(host); !status.ok())
      return context_->Answer<session::FetchedArray>(std::move(done), status);
    lanes_->Open(host);
    command.mutable_fetch()->set_lane_fetch(fetch.name);
    command.mutable_fetch()->set_lane_above(fetch.above);
    command.mutable_fetch()->set_session(context_->id().v);
  }
  auto fetched = [this, host, by_lane, done = std::move(done), effects = (*entry)->effects](absl::StatusOr<Bytes> data) mutable {
    using Result = absl::StatusOr<session::FetchedArray>;
    if (!data.ok()) return context_->Answer(std::move(done), Result(data.status()));
    session::FetchedArray result;
    if (by_lane && data->empty())
      result.on_lane_of = host;
    else
      result.data = *std::move(data);
    if (effects == nullptr || effects->settled()) return context_->Answer(std::move(done), Result(std::move(result)));
    reads_->Hold({effects}, [this, result = std::move(result), done = std::move(done)](absl::Status status) mutable {
      context_->Answer(std::move(done), status.ok() ? Result(std::move(result)) : Result(status));
    });
  };
  fabric_->fetches().Add(command.fetch().fetch(), host, context_->id(), bytes, std::move(fetched), by_lane);
  fabric_->outbox().Add(host, std::move(command));
}

void ArrayReader::FetchStrings(Handle host_buffer, const ArrayEntry& entry) {
  reads_->Hold({entry.record}, [this, host_buffer, cell = (*entry.strings)[0]](absl::Status status) {
    if (!status.ok()) return host_buffers_->EndFill(host_buffer, status);
    host_buffers_->EndFill(host_buffer, *cell->data);
  });
}

absl::StatusOr<bool> ArrayReader::IsDeleted(Handle array) {
  const ArrayEntry* entry = context_->arrays().Find(array);
  if (entry == nullptr) return UnknownHandle("array", array);
  return entry->is_deleted();
}

absl::StatusOr<buffers::ArraySpec> ArrayReader::Spec(Handle array) {
  const ArrayEntry* entry = context_->arrays().Find(array);
  if (entry == nullptr) return UnknownHandle("array", array);
  if (entry->spec != nullptr) return *entry->spec;
  return entry->record == nullptr
             ? absl::InvalidArgumentError("the array has no shape: it stood for an error, and has been deleted")
             : entry->record->status();
}

}  // namespace pw::controller
