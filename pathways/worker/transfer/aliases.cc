#include "pathways/worker/transfer/aliases.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace v1 = pathways::v1;

// A command that is done when all its shards have settled.
struct Aliases::Pending {
  Pending(Outbox* outbox, uint64_t op) : outbox(outbox), op(op) {}
  Outbox* outbox;
  uint64_t op;
  size_t left = 1;  // one for the command itself
  absl::Status status;

  void Settled(const absl::Status& shard) {
    if (status.ok()) status = shard;
    if (--left == 0) outbox->Done(op, status);
  }
};

void Aliases::WaitFor(const PendingRef& pending, const ShardRef& shard) {
  ++pending->left;
  // A plain pointer: the shard runs the callback, so it is alive. A reference to itself in its own callback would keep it alive forever.
  shard->OnSettled([pending, raw = shard.get()] { pending->Settled(raw->error()); });
}

void Aliases::Handle(const v1::Command& command) {
  if (command.has_alias()) Alias(command.alias());
  if (command.has_bitcast()) Bitcast(command.bitcast());
  if (command.has_poison()) Poison(command.poison());
}

void Aliases::Alias(const v1::Alias& command) {
  auto pending = std::make_shared<Pending>(&context_->outbox(), command.op());
  const SessionId session(command.session());
  for (const v1::Alias::Item& item : command.items()) {
    ShardRef source = arrays_->store().FindOrFailed(ArrayId(item.source_array()), item.source_shard());
    WaitFor(pending, source);
    arrays_->store().Bind(ArrayId(item.array()), item.shard(), std::move(source), session);
  }
  pending->Settled(absl::OkStatus());
}

void Aliases::Poison(const v1::Poison& command) {
  const absl::Status error = FromProto(command.error());
  const absl::Status reason = error.ok() ? absl::UnknownError("poisoned without a reason") : error;
  for (uint64_t array : command.arrays()) arrays_->store().Poison(ArrayId(array), reason, SessionId(command.session()));
}

void Aliases::Bitcast(const v1::Bitcast& command) {
  const SessionId session(command.session());
  const ArrayId result_id(command.result());
  absl::StatusOr<buffers::DType> dtype = buffers::DTypeFromNumber(command.dtype());
  const device::Dims dims(command.dims().begin(), command.dims().end());
  std::vector<std::pair<int, ShardRef>> sources;
  arrays_->store().ForEachShard(ArrayId(command.source()),
                                [&](int index, const ShardRef& shard) { sources.emplace_back(index, shard); });
  absl::Status status = dtype.ok() ? buffers::DenseBytes(*dtype, dims).status() : dtype.status();
  if (status.ok() && sources.empty()) status = arrays_->store().FindOrFailed(ArrayId(command.source()), 0)->error();
  if (!status.ok()) {
    arrays_->store().Poison(result_id, status, session);
    return context_->outbox().Done(command.op(), status);
  }
  auto pending = std::make_shared<Pending>(&context_->outbox(), command.op());
  for (auto& [index, source] : sources) {
    ShardRef result = arrays_->NewShard(source->device(), session);
    arrays_->store().Bind(result_id, index, result, session);
    WaitFor(pending, result);
    auto task = std::make_shared<Hazards::Task>();
    task->reads = {source};
    task->run = [this, source = source, result, dtype = *dtype, dims](const absl::Status& input) {
      return StartBitcast(source, result, dtype, dims, input);
    };
    arrays_->hazards().Submit(std::move(task));
  }
  pending->Settled(absl::OkStatus());
}

// PJRT cannot view a buffer as another type, so the bytes pass through host memory. This works on every device.
Hazards::Outcome Aliases::StartBitcast(const ShardRef& source, const ShardRef& result, buffers::DType dtype,
                                       const device::Dims& dims, const absl::Status& input) {
  if (!input.ok()) {
    result->SetFailed(input);
    return Hazards::Outcome::kDone;
  }
  const device::DeviceBuffer* from = source->buffer();
  const bool packed = DeviceBytes(dtype, {8}) != 8 * buffers::HostBytes(dtype) ||
                      DeviceBytes(from->dtype(), {8}) != 8 * buffers::HostBytes(from->dtype());
  if (packed && DeviceBytes(dtype, {8}) != DeviceBytes(from->dtype(), {8})) {
    result->SetFailed(absl::UnimplementedError(
        absl::StrCat("bitcast between ", std::string(buffers::Name(from->dtype())), " and ", std::string(buffers::Name(dtype)),
                     ": types narrower than a byte can only become others of the same width")));
    return Hazards::Outcome::kDone;
  }
  if (DeviceBytes(dtype, dims) != DeviceBytes(from->dtype(), from->dims())) {
    result->SetFailed(absl::InvalidArgumentError(
        absl::StrCat("bitcast of ", DeviceBytes(from->dtype(), from->dims()), " bytes to ", DeviceBytes(dtype, dims), " bytes")));
    return Hazards::Outcome::kDone;
  }
  arrays_->Await(source->buffer()->ToHost(),
                 [this, source, result, dtype, dims, kind = from->memory_kind()](const absl::StatusOr<Bytes>& bytes) {
                   if (!bytes.ok()) return result->SetFailed(source->failed() ? source->error() : bytes.status());
                   Place(arrays_, result, {*bytes, dtype, dims, std::nullopt, false}, kind, [](const absl::Status&) {});
                 });
  return Hazards::Outcome::kDone;
}

}  // namespace pw::worker
