#include "pathways/worker/transfer/host_views.h"

#include <memory>
#include <utility>

namespace pw::worker {
namespace {

// Keeps a view and the task that reads it; its destructor ends the read.
class Reading {
 public:
  Reading(Core* core, Hazards::TaskRef task, Bytes view)
      : core_(core), strand_(core->strand), alive_(core->alive()), task_(std::move(task)), view_(std::move(view)) {
    core_->memory.Begin();
  }
  ~Reading() {
    view_ = Bytes();
    // Destroys the task on the strand, even if the worker is gone.
    strand_->Post([core = core_, alive = std::move(alive_), task = std::move(task_)] {
      if (alive.expired()) return;
      core->memory.End();
      core->hazards.Release(task);
    });
  }
  const Bytes& view() const { return view_; }

 private:
  Core* const core_;
  Executor* const strand_;
  std::weak_ptr<bool> alive_;
  Hazards::TaskRef task_;
  Bytes view_;
};

}  // namespace

void ReadInPlace(Core* core, const Hazards::TaskRef& task, const ShardRef& shard,
                 absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> then) {
  core->hazards.Hold(task);
  core->Await(shard->buffer()->Ready(), [core, task, shard, then = std::move(then)](const absl::StatusOr<Unit>& ready) mutable {
    absl::StatusOr<Bytes> view = ready.ok() ? shard->buffer()->HostView() : ready.status();
    if (!view.ok()) {
      std::move(then)(view.status());
      return core->hazards.Release(task);
    }
    auto reading = std::make_shared<Reading>(core, task, *std::move(view));
    const uint8_t* const data = reading->view().data();
    const size_t size = reading->view().size();
    std::move(then)(Bytes(std::move(reading), data, size));
  });
}

}  // namespace pw::worker
