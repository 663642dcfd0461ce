#include "pathways/controller/session/context/run_results.h"

#include "absl/strings/str_cat.h"
#include "pathways/controller/arrays/array_table.h"

namespace pw::controller {

void ExecuteRun::AnswerInOrder(Fabric& fabric) {
  const std::shared_ptr<EffectRuns> keep = order;
  while (!keep->runs.empty() && keep->runs.front()->missing == 0) {
    const std::shared_ptr<ExecuteRun> first = std::move(keep->runs.front());
    keep->runs.pop_front();
    first->order = nullptr;
    keep->unreported.Update(first->status);
    if (first->waiter) first->status = std::exchange(keep->unreported, absl::OkStatus());
    first->AnswerWaiter(fabric);
  }
}

void ExecuteRun::AnswerWaiter(Fabric& fabric) {
  if (effects != nullptr && !effects_are_nodes) std::exchange(effects, nullptr)->OnDone(absl::OkStatus());
  if (order != nullptr) return AnswerInOrder(fabric);
  if (!waiter) return;
  absl::StatusOr<RunResult> answer = status.ok() ? absl::StatusOr<RunResult>(result) : status;
  fabric.Post([waiter = std::move(waiter), answer = std::move(answer)]() mutable { std::move(waiter)(std::move(answer)); });
}

absl::StatusOr<std::shared_ptr<ExecuteRun>> RunResults::Begin(Handle handle) {
  if (handle == 0) return nullptr;
  const auto [it, is_new] = runs_.try_emplace(handle);
  if (!is_new) return absl::AlreadyExistsError(absl::StrCat("status handle ", handle, " is in use"));
  it->second = std::make_shared<ExecuteRun>();
  return it->second;
}

void RunResults::AddEffects(const std::shared_ptr<ExecuteRun>& run) {
  run->order = effects_;
  effects_->runs.push_back(run);
  if (run->missing == 0) run->AnswerWaiter(*fabric_);
}

void RunResults::AwaitEffects(StatusCallback done) {
  auto question = std::make_shared<ExecuteRun>();
  question->waiter = [done = std::move(done)](const absl::StatusOr<RunResult>& ended) mutable {
    std::move(done)(ended.status());
  };
  AddEffects(question);
}

void RunResults::Fetch(Handle handle, ResultCallback<RunResult> done) {
  auto it = runs_.find(handle);
  if (it == runs_.end()) return Answer(std::move(done), UnknownHandle("execution result", handle));
  const std::shared_ptr<ExecuteRun> run = std::move(it->second);
  runs_.erase(it);
  run->waiter = std::move(done);
  if (run->ended()) return run->AnswerWaiter(*fabric_);
  // Removes answered runs now and then.
  if (awaited_.size() > 64 + 2 * live_at_sweep_) {
    std::erase_if(awaited_, [](const std::weak_ptr<ExecuteRun>& weak) { return weak.expired(); });
    live_at_sweep_ = awaited_.size();
  }
  awaited_.push_back(run);
}

void RunResults::End(const absl::Status& error) {
  for (const std::shared_ptr<ExecuteRun>& run : std::exchange(effects_->runs, {})) {
    run->order = nullptr;  // runs and order hold each other
    if (run->waiter) Answer(std::exchange(run->waiter, nullptr), error);
  }
  for (auto& weak : awaited_) {
    auto run = weak.lock();
    if (run != nullptr && run->waiter) Answer(std::exchange(run->waiter, nullptr), error);
  }
}

void RunResults::Answer(ResultCallback<RunResult> done, absl::StatusOr<RunResult> result) {
  fabric_->Post([done = std::move(done), result = std::move(result)]() mutable { std::move(done)(std::move(result)); });
}

}  // namespace pw::controller
