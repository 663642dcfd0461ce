// Process: a process of a simulated cluster, with a thread that runs its tasks, a clock and timers. Can be stopped, slowed and killed.
//
// It has one CPU: tasks run one after another, in the order of Post, and each takes `task_time`. A stopped process runs nothing until it
// continues (SIGSTOP, SIGCONT); posted tasks wait. A killed process never runs anything again; its waiting tasks are dropped. Handles to it
// may outlive it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/sim/world.h"

namespace pw::sim {

class Process final : public Executor, public Timers, public Clock {
 public:
  // `world` must outlive the process and everything posted to it.
  Process(World* world, std::string name, std::string island, absl::Duration task_time);
  ~Process() override { Kill(); }

  void Post(Task task) override;
  void After(absl::Duration delay, Executor* executor, Task task) override;
  absl::Time Now() override;

  // Continues after as many calls of Continue as of Stop.
  void Stop();
  void Continue();
  void Kill();
  // Makes every task take `factor` times as long.
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
