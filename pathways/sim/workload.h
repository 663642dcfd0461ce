// Workloads: what the clients of a scenario do. Each is a state machine over one Tenant; it is finished when it has done all it
// was asked for and every answer has come. The numbers are those of the scenario's line.
//
//   chain     length=32 repeat=4 us=20 hosts=1   y = f(y), so many times without waiting, on all devices of so many hosts; then a read
//   pipeline  stages=4 batches=8 us=20     one program: a computation on each of several hosts, the result passed on; in_turn=1: called when the
//                                          call before has ended
//   mix       operations=100 us=20 reopen=0   arrays made, computed with, copied, read and dropped at random, on any hosts;
//                                          reopen=N: a new session after every N operations, which sees hosts that have joined
//   training  steps=8 us=50                one replica on each island: gradients, copied to all the others, summed
//   exchange  rounds=8 pairs=8 us=20       every round, arrays go from random hosts to random hosts, and are computed with there
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
  World* world;
  Network* network;
  FrontDoor* door;
  Referee* referee;
  int number;  // of the client
  std::function<void(Client*)> follow;
  std::function<void(Client*)> unfollow;
};

class Workload {
 public:
  // Calls this when it is finished.
  using Done = std::function<void()>;

  virtual ~Workload();
  void Start(Done done);
  // Its process dies, wherever it is.
  void Kill();

  bool finished() const { return finished_; }
  const std::string& name() const { return process_.name(); }
  // Over all its sessions.
  uint64_t requests() const;
  uint64_t answers() const;
  uint64_t strays() const;
  uint64_t reads() const;
  uint64_t errors() const;
  bool killed() const { return killed_; }

 protected:
  Workload(const WorkloadContext& context, const WorkloadSpec& spec);

  // The session is open; `hosts()` are there.
  virtual void Go() = 0;
  void Finish();
  // Ends the session and calls Go again with a new one.
  void Reopen();

  Tenant& tenant() { return *tenants_.back(); }
  World& world() { return *context_.world; }
  int64_t Number(const std::string& name, int64_t otherwise) const;
  // The devices of each host, in order.
  const std::vector<std::vector<int32_t>>& hosts() const { return hosts_; }
  size_t AnyHost() { return world().Below(hosts_.size()); }
  int number() const { return context_.number; }
  Referee& referee() { return *context_.referee; }

 private:
  void Open();

  const WorkloadContext context_;
  const WorkloadSpec spec_;
  Process process_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<std::vector<int32_t>> hosts_;
  Done done_;
  bool finished_ = false;
  bool killed_ = false;
};

std::unique_ptr<Workload> MakeWorkload(const WorkloadContext& context, const WorkloadSpec& spec);

}  // namespace pw::sim
