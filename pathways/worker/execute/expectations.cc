#include "pathways/worker/execute/expectations.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace v1 = pathways::v1;

// A Fulfil whose shards have not all settled yet.
struct Expectations::Pending {
  std::function<void(const absl::Status&)> done;
  size_t left = 1;  // one for the command itself
  absl::Status status;

  void Settled(const absl::Status& shard) {
    status.Update(shard);
    if (--left == 0) done(status);
  }
};

void Expectations::Expect(const v1::Expect& command) {
  const ArrayId array(command.array());
  if (command.under_way()) return Begin(array);
  const SessionId session(command.session());
  const int devices = static_cast<int>(arrays_->runtime()->devices().size());
  Expected expected{session, {}, false};
  for (const v1::Placement& placement : command.placements()) {
    if (placement.local_device() < 0 || placement.local_device() >= devices) {
      return arrays_->store().Poison(array,
                                     absl::InvalidArgumentError(absl::StrCat(
                                         "there is no local device ", placement.local_device(), "; this host has ", devices)),
                                     session);
    }
    ShardRef shard = arrays_->NewShard(placement.local_device(), session);
    arrays_->store().Bind(array, placement.shard(), shard, session);
    expected.targets.push_back({placement.shard(), std::move(shard), placement.memory_kind()});
  }
  expected_.insert({array, std::move(expected)});
}

void Expectations::Begin(ArrayId array) {
  auto it = expected_.find(array);
  if (it == expected_.end() || std::exchange(it->second.under_way, true)) return;
  arrays_->memory().Begin();
}

Expectations::Expected Expectations::Take(Map::iterator it) {
  Expected expected = std::move(it->second);
  expected_.erase(it);
  if (expected.under_way) arrays_->memory().End();
  return expected;
}

void Expectations::Fulfil(const v1::Fulfil& command) {
  Fulfil(command, [outbox = &context_->outbox(), op = command.op()](const absl::Status& status) { outbox->Done(op, status); });
}

void Expectations::Fulfil(const v1::Fulfil& command, std::function<void(const absl::Status&)> done) {
  auto pending = std::make_shared<Pending>();
  pending->done = std::move(done);
  auto it = expected_.find(ArrayId(command.array()));
  if (it == expected_.end()) return pending->Settled(absl::OkStatus());  // its session has ended
  const Expected expected = Take(it);
  const absl::Status error = FromProto(command.status());
  const ArrayId source_id(command.source());
  std::vector<ShardRef> sources;
  for (const Target& target : expected.targets)
    sources.push_back(error.ok() ? arrays_->store().FindOrFailed(source_id, target.index) : nullptr);
  arrays_->store().Release(source_id);
  for (size_t i = 0; i < expected.targets.size(); ++i) {
    const Target& target = expected.targets[i];
    ++pending->left;
    target.shard->OnSettled([pending, raw = target.shard.get()] { pending->Settled(raw->error()); });
    if (!error.ok()) {
      target.shard->SetFailed(error);
      continue;
    }
    // Runs once the source has settled: until then its producer fills the source, not the target.
    auto task = std::make_shared<Hazards::Task>();
    task->reads = {sources[i]};  // a consumer of the source then runs after this
    task->run = [this, target, source = sources[i], raw = task.get()](const absl::Status&) {
      return Become(target, source, raw->OtherReaders(*source));
    };
    arrays_->hazards().Hold(task);
    arrays_->hazards().Submit(task);
    sources[i]->OnSettled([hazards = &arrays_->hazards(), task] { hazards->Release(task); });
  }
  pending->Settled(absl::OkStatus());
}

Hazards::Outcome Expectations::Become(const Target& target, const ShardRef& source, int other_readers) {
  const bool here = source->buffer() != nullptr && source->device() == target.shard->device() && source->moved_out() == 0;
  if (source->failed()) {
    target.shard->SetFailed(source->error());
  } else if (here && !source->promised && source->names == 0 && other_readers == 0 && !source->shared()) {
    const int64_t bytes = source->bytes();  // before Take
    target.shard->SetLive(source->Take(), bytes);
    target.shard->SetReady();
  } else if (here && !source->promised && !target.shard->promised) {
    target.shard->Share(*source);
    target.shard->SetReady();
  } else {
    Copy(target, source);
  }
  return Hazards::Outcome::kDone;
}

// Goes through host memory, which works on every device.
void Expectations::Copy(const Target& target, const ShardRef& source) {
  device::DeviceBuffer* from = source->buffer();
  if (from == nullptr) return target.shard->SetFailed(absl::InternalError("the source of an expected array was consumed"));
  arrays_->Await(
      from->ToHost(), [this, target, source, dtype = from->dtype(), dims = from->dims()](const absl::StatusOr<Bytes>& bytes) {
        if (!bytes.ok()) return target.shard->SetFailed(bytes.status());
        Place(arrays_, target.shard, {*bytes, dtype, dims, std::nullopt, false}, target.memory_kind, [](const absl::Status&) {});
      });
}

void Expectations::ReleaseOwner(SessionId session) {
  for (ArrayId array : SortedKeysWhere(expected_, [session](const Expected& expected) { return expected.session == session; })) {
    for (const Target& target : Take(expected_.find(array)).targets)
      target.shard->SetFailed(absl::CancelledError("the client has gone, and with it what was to make this array"));
  }
}

}  // namespace pw::worker
