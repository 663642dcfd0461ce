// Sequential dispatch of programs with nodes that wait for values: one step after another. The next step follows a part when all of the
// part is enqueued, and a waiting node when its outputs exist.
#include <utility>

#include "pathways/controller/session/runs/program_steps_run.h"
#include "pathways/controller/session/runs/sequential_run.h"

namespace pw::controller {

using program::Step;

// The run takes its place in the session's order at the call, even if its first step can only be taken later (WN-5). Gangs that
// are submitted in between may wait for its results.
void ProgramSteps::StartInTurn(StepsRef steps, std::vector<Record> args) {
  const ProgramEntry& entry = *steps->entry;
  steps->turns = std::make_unique<Turns>();
  steps->turns->place = std::make_shared<const Gangs::Barrier>(fabric().gangs().PlaceOf(context_->id()));
  std::vector<Expected> expected;
  for (size_t r = 0; r < steps->results.size(); ++r) {
    const int value = entry.program().nodes[entry.program().results[r]].inputs[0];
    expected.push_back(Expect(entry, value, std::exchange(steps->results[r], ResultOf(entry, r))));
  }
  if (steps->run != nullptr) ++steps->run->missing;
  steps->turns->done = [this, expected = std::move(expected)](const StepsRun& ended) {
    for (size_t r = 0; r < expected.size(); ++r) FulfilWith(expected[r], ended.results[r]);
    EndRun(ended.run, absl::OkStatus());
  };
  dispatch::ArrayOrder::Names names;
  for (size_t i = 0; i < args.size(); ++i) (entry.arguments[i].donated ? names.changes : names.reads).push_back(args[i]->id());
  auto take = [this, alive = alive(), steps = std::move(steps),
               args = std::move(args)](dispatch::ArrayOrder::Ticket ticket) mutable {
    if (alive.expired()) return;
    TakeArgs(*steps, std::exchange(args, {}), true);
    fabric().outbox().order().End(ticket);
    TakeSteps(std::move(steps));
  };
  fabric().outbox().order().Begin(context_->id(), names, std::move(take));
}

void ProgramSteps::StartBranchInTurn(const std::shared_ptr<const ProgramEntry>& branch,
                                     const std::shared_ptr<SelectRun>& select) {
  auto steps = std::make_shared<StepsRun>(
      StepsRun{branch, std::vector<Record>(branch->steps->cut.specs.size()), {}, select->steps->run, std::make_unique<Turns>()});
  steps->turns->place = select->steps->turns->place;
  for (size_t r = 0; r < select->outputs.size(); ++r) steps->results.push_back(ResultOf(*branch, r));
  steps->turns->done = [this, select](const StepsRun& ended) {
    for (size_t r = 0; r < select->outputs.size(); ++r) FulfilWith(select->outputs[r], ended.results[r]);
    EndWaiting(select->steps, absl::OkStatus());
  };
  TakeArgs(*steps, std::exchange(select->inputs, {}), false);
  TakeSteps(std::move(steps));
}

// REQUIRES: the run has its arguments.
void ProgramSteps::TakeSteps(StepsRef steps) {
  std::vector<int>& last_taken = steps->turns->last_taken;
  last_taken.assign(steps->values.size(), -1);
  const std::vector<Step>& all = steps->entry->steps->cut.steps;
  for (size_t s = 0; s < all.size(); ++s) {
    for (int value : all[s].inputs) last_taken[value] = static_cast<int>(s);
  }
  for (size_t v = 0; v < last_taken.size(); ++v) {
    if (last_taken[v] < 0) steps->values[v] = nullptr;
  }
  Advance(std::move(steps));
}

// Begins the next step; may be called again while that begins. Each value is held until the last step that takes it has begun.
void ProgramSteps::Advance(StepsRef steps) {
  Turns& turns = *steps->turns;
  turns.again = true;
  if (std::exchange(turns.advancing, true)) return;
  const std::vector<Step>& all = steps->entry->steps->cut.steps;
  while (std::exchange(turns.again, false)) {
    if (turns.next == all.size()) break;
    const int at = static_cast<int>(turns.next);
    const Step& step = all[turns.next++];
    ++turns.under_way;
    StartStep(steps, step);
    for (const std::vector<int>* values : {&step.inputs, &step.outputs}) {
      for (int value : *values) {
        if (turns.last_taken[value] <= at) steps->values[value] = nullptr;
      }
    }
  }
  turns.advancing = false;
  if (turns.next < all.size() || turns.under_way > 0) return;
  std::exchange(turns.done, nullptr)(*steps);
  steps->results.clear();
}

// Ends a step that has begun.
void ProgramSteps::EndStep(const StepsRef& steps) {
  if (--steps->turns->under_way == 0 && steps->turns->next == steps->entry->steps->cut.steps.size()) Advance(steps);
}

void ProgramSteps::SendPartInTurn(const StepsRef& steps, const std::shared_ptr<const ProgramEntry>& part,
                                  const std::vector<Record>& args, std::vector<Record> results) {
  auto done = [this, alive = alive(), steps](const absl::Status& status) {
    if (alive.expired()) return;
    if (steps->run != nullptr) steps->run->status.Update(status);
    EndStep(steps);
  };
  auto sent = [this, alive = alive(), steps] {
    if (!alive.expired()) Advance(steps);
  };
  std::make_shared<SequentialRun>(&fabric(), context_->id(), alive(), part, args, std::move(results), std::move(done),
                                  SequentialRun::Part{steps->turns->place, std::move(sent)})
      ->Start();
}

}  // namespace pw::controller
