// Host: a worker process of a simulated cluster: the real worker code over a simulated network and simulated devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/base/threads/strand.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/net/transport.h"
#include "pathways/sim/network.h"
#include "pathways/sim/process.h"
#include "pathways/worker/controller_link.h"

namespace pw::sim {

// Timers that are slower by a factor, for a slow device.
class SlowTimers final : public Timers {
 public:
  explicit SlowTimers(Timers* timers) : timers_(timers) {}
  void After(absl::Duration delay, Executor* executor, Task task) override {
    timers_->After(delay * factor, executor, std::move(task));
  }
  double factor = 1;

 private:
  Timers* const timers_;
};

class Host {
 public:
  struct Options {
    std::string name;
    std::string island;
    std::string controller;  // address
    int devices = 4;
    int64_t device_memory_bytes = 0;
    absl::Duration task_time;  // the simulated time that each task of the process takes
  };
  Host(World* world, Network* network, const Options& options);
  ~Host();

  Process& process() { return process_; }
  const std::string& name() const { return process_.name(); }
  // Makes the process's tasks and its devices slower by this factor.
  void Slow(double factor);
  // Kills the process: none of its code runs again.
  void Die();

  // As the methods of worker::Worker; 0 after Die.
  int64_t arrays() const { return link_ == nullptr ? 0 : link_->arrays(); }
  int64_t charged_bytes() const { return link_ == nullptr ? 0 : link_->charged_bytes(); }
  int64_t had_names() const { return link_ == nullptr ? 0 : link_->had_names(); }
  uint64_t configuration() const { return link_ == nullptr ? 0 : link_->configuration(); }
  std::vector<int> launches() const { return runtime_.launches(); }

 private:
  Process process_;
  const std::unique_ptr<net::Transport> transport_;
  SlowTimers device_time_;
  device::SimulatedRuntime runtime_;
  Strand strand_;
  int launch_id_ = 0;
  std::unique_ptr<net::Listener> listener_, lane_listener_;  // peers; clients
  std::unique_ptr<worker::ControllerLink> link_;
};

}  // namespace pw::sim
