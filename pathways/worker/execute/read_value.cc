#include "pathways/worker/execute/read_value.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::worker {

struct ValueReader::Reading {
  ShardRef shard;
  size_t size = 0;
  std::string what;
  Done done;
};

void ValueReader::Read(ArrayId array, size_t size, std::string what, Done done) {
  reading_ = std::make_shared<Reading>(Reading{arrays_->store().FindOrFailed(array, 0), size, std::move(what), std::move(done)});
  const ShardRef shard = reading_->shard;
  shard->OnLive([context = context_, arrays = arrays_, alive = context_->alive(), waiting = std::weak_ptr<Reading>(reading_)] {
    if (alive.expired()) return;
    if (const ReadingRef reading = waiting.lock(); reading != nullptr) Take(context, arrays, reading);
  });
}

void ValueReader::Take(const WorkerContext* context, DeviceArrays* arrays, const ReadingRef& reading) {
  Shard& shard = *reading->shard;
  if (shard.failed()) return reading->done(shard.error());
  if (shard.buffer() == nullptr) return reading->done(absl::InternalError(absl::StrCat(reading->what, " was consumed")));
  // The buffer stays until it has been read.
  arrays->Await(shard.buffer()->ToHost(), [context, waiting = std::weak_ptr<Reading>(reading),
                                           kept = reading->shard](const absl::StatusOr<Bytes>& bytes) {
    const ReadingRef live = waiting.lock();
    if (live == nullptr) return;
    if (bytes.ok() && bytes->size() == live->size) return live->done(bytes);
    const absl::Status why =
        bytes.ok() ? absl::InvalidArgumentError(absl::StrCat(live->what, " has ", bytes->size(), " bytes, not ", live->size))
                   : bytes.status();
    // The shard knows which computation failed.
    kept->OnSettled([alive = context->alive(), waiting, why] {
      const ReadingRef reading = waiting.lock();
      if (alive.expired() || reading == nullptr) return;
      reading->done(reading->shard->failed() ? reading->shard->error() : why);
    });
  });
}

}  // namespace pw::worker
