#include "pathways/worker/transfer/host_views.h"

#include <memory>
#include <utility>

namespace pw::worker {
namespace {

// Keeps a view and the task that reads it; its destructor ends the read.
class Reading {
 public:
  Reading(const WorkerContext& context, DeviceArrays* arrays, Hazards::TaskRef task, Bytes view)
      : arrays_(arrays), strand_(context.strand()), alive_(context.alive()), task_(std::move(task)), view_(std::move(view)) {
    arrays_->memory().Begin();
  }
  ~Reading() {
    view_ = Bytes();
    // Destroys the task on the strand, even if the worker is gone.
    strand_->Post([arrays = arrays_, alive = std::move(alive_), task = std::move(task_)] {
      if (alive.expired()) return;
      arrays->memory().End();
      arrays->hazards().Release(task);
    });
  }
  const Bytes& view() const { return view_; }

 private:
  DeviceArrays* const arrays_;
  Executor* const strand_;
  std::weak_ptr<bool> alive_;
  Hazards::TaskRef task_;
  Bytes view_;
};

}  // namespace

void ReadInPlace(const WorkerContext* context, DeviceArrays* arrays, const Hazards::TaskRef& task, const ShardRef& shard,
                 absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> then) {
  arrays->hazards().Hold(task);
  arrays->Await(shard->buffer()->Ready(),
                [context, arrays, task, shard, then = std::move(then)](const absl::StatusOr<Unit>& ready) mutable {
                  absl::StatusOr<Bytes> view = ready.ok() ? shard->buffer()->HostView() : ready.status();
                  if (!view.ok()) {
                    std::move(then)(view.status());
                    return arrays->hazards().Release(task);
                  }
                  auto reading = std::make_shared<Reading>(*context, arrays, task, *std::move(view));
                  const uint8_t* const data = reading->view().data();
                  const size_t size = reading->view().size();
                  std::move(then)(Bytes(std::move(reading), data, size));
                });
}

}  // namespace pw::worker
