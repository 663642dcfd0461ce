// Workloads: the behaviour of a scenario's clients. Each is a state machine over one Tenant. It is finished when it has sent all its
// requests and every answer has come. The numbers come from the scenario's line.
//
//   - chain length=32 repeat=4 us=20 hosts=1: y = f(y), `length` times without waiting, on all devices of `hosts` hosts; then a
//     read
//   - pipeline stages=4 batches=8 us=20: one program, with a computation on each of several hosts, the result passed on.
//     With in_turn=1, each call waits until the previous one has ended.
//   - mix operations=100 us=20 reopen=0: makes, computes with, copies, reads and drops arrays at random, on any hosts.
//     With slices=N, it works on N virtual slices, of which it gives one back now and then, and takes another one; with exclusive=1, they are
//     exclusive. With reopen=N, it opens a new session after every N operations, which sees hosts that have joined.
//   - training steps=8 us=50: up to four replicas, on different islands if possible. Each sums the gradients of all.
//   - exchange rounds=8 pairs=8 us=20: every round, copies arrays from random hosts to random hosts and computes with them there
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pathways/sim/scenario.h"
#include "pathways/sim/tenant.h"

namespace pw::sim {

struct WorkloadContext {
  SimCluster* cluster;
  int number;  // of the client
};

class Workload {
 public:
  // Called when the workload is finished.
  using Done = std::function<void()>;

  virtual ~Workload() = default;
  void Start(Done done);
  // Kills the workload's process at once.
  void Kill();
  // Ends its connections, and lets it make none for `duration`.
  void CutOff(absl::Duration duration) { context_.cluster->CutClient(process_, duration); }

  bool finished() const { return finished_; }
  const std::string& name() const { return process_->name(); }
  // Sums over all its sessions.
  uint64_t requests() const;
  uint64_t answers() const;
  uint64_t strays() const;
  uint64_t reads() const;
  uint64_t errors() const;
  bool killed() const { return killed_; }

 protected:
  Workload(const WorkloadContext& context, const WorkloadSpec& spec);

  // Called when the session is open and hosts() is set.
  virtual void Go() = 0;
  void Finish();
  // Ends the session, then calls Go again with a new one.
  void Reopen();

  Tenant& tenant() { return *tenants_.back(); }
  World& world() { return context_.cluster->world(); }
  int64_t Number(const std::string& name, int64_t otherwise) const;
  // Returns the devices of each host, in order.
  const std::vector<std::vector<int32_t>>& hosts() const { return hosts_; }
  size_t AnyHost() { return world().Below(hosts_.size()); }
  int number() const { return context_.number; }
  Referee& referee() { return context_.cluster->referee(); }

 private:
  void Open();

  const WorkloadContext context_;
  const WorkloadSpec spec_;
  Process* const process_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<std::vector<int32_t>> hosts_;
  Done done_;
  bool finished_ = false;
  bool killed_ = false;
};

std::unique_ptr<Workload> MakeWorkload(const WorkloadContext& context, const WorkloadSpec& spec);

}  // namespace pw::sim
