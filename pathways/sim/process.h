// Process: one process of a simulated cluster: a thread that runs its tasks, a clock and timers; it can be stopped, slowed and
// killed.
//
// It has one CPU: tasks run one after another, in the order of Post, and each takes `task_time`. A stopped process runs nothing
// until it goes on (SIGSTOP, SIGCONT); what is posted meanwhile waits. A killed one never runs anything again, and what waited
// is dropped unrun. Handles to it may outlive it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/sim/world.h"

namespace pw::sim {

class Process final : public Executor, public Timers, public Clock {
 public:
  // `world` outlives the process and everything that was posted to it.
  Process(World* world, std::string name, std::string island, absl::Duration task_time);
  ~Process() override { Kill(); }

  void Post(Task task) override;
  void After(absl::Duration delay, Executor* executor, Task task) override;
  absl::Time Now() override;

  // It goes on after as many Continues as there were Stops.
  void Stop();
  void Continue();
  void Kill();
  // Every task takes so many times as long.
  void Slow(double factor);

  bool dead() const;
  bool stopped() const;
  const std::string& name() const { return name_; }
  const std::string& island() const { return island_; }
  World& world() { return *world_; }

 private:
  struct State;
  static void Schedule(const std::shared_ptr<State>& state);
  static void RunOne(const std::shared_ptr<State>& state);

  World* const world_;
  const std::string name_;
  const std::string island_;
  const std::shared_ptr<State> state_;
};

}  // namespace pw::sim
