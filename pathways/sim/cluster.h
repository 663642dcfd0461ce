// SimCluster: a whole cluster in one process: the real controller, real workers with simulated devices, and processes for clients (client.h).
//
// It replaces only three interfaces: the network, the clock with its timers and threads, and the devices. All code above them is that of a
// deployed cluster.
//
// A host has a number and may die and start again. Each start is a *life*: the worker of life L of host h joins as "w<h>.<L>". Dead
// processes stay allocated until the world ends, because running tasks may still point to them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/session/service.h"
#include "pathways/sim/host.h"
#include "pathways/sim/network.h"
#include "pathways/sim/process.h"
#include "pathways/sim/referee.h"
#include "pathways/sim/scenario.h"
#include "pathways/sim/world.h"

namespace pw::sim {

class SimCluster {
 public:
  SimCluster(const Scenario& scenario, World* world);
  ~SimCluster();

  // Runs until all hosts have joined. Returns false if that takes more than a minute.
  bool Form();

  // Returns the current controller, for tests that inspect it between two events.
  controller::ClusterImpl& controller() { return *clusters_.back(); }
  Network& network() { return network_; }
  Referee& referee() { return referee_; }
  World& world() { return *world_; }
  // Number of host numbers, including hosts that are dead.
  int hosts() const { return static_cast<int>(hosts_.size()); }
  Host& host(int number) { return *hosts_[number].back(); }
  bool alive(int number) const { return !hosts_[number].back()->process().dead(); }

  // --- faults ---
  void CrashHost(int number, bool silently);
  void StopHost(int number, absl::Duration duration);
  void SlowHost(int number, double factor, absl::Duration duration);
  void PartHost(int number, absl::Duration duration);
  // Ends the connection between the host and the controller, and lets them make none for `duration`.
  void UnlinkHost(int number, absl::Duration duration);
  // Ends the connections between the host and another one, chosen at random, and lets them make none for `duration`.
  void SeverHost(int number, absl::Duration duration);
  // Delays frames to and from the host; `by_chance`: each by a random part of `by`.
  void DelayHost(int number, absl::Duration by, bool by_chance, absl::Duration duration);
  // Starts a dead host again; AddHost adds a new one.
  void StartHost(int number);
  int AddHost();
  // Kills the controller; a new one takes its address after `away`.
  void CrashController(absl::Duration away);
  // Tells the controller to leave its sessions to a new one, which takes its address `away` after its end.
  void StopController(absl::Duration away);

  // Returns a new process for a client; it lives as long as the cluster. KillClient: its connections close at their other ends.
  Process* NewClient(const std::string& name, absl::Duration task_time);
  void KillClient(Process* process);
  void CutClient(Process* process, absl::Duration duration);
  // The controller's address for clients.
  static std::string address_for_clients();

  // Number of arrays on all running hosts; a stopped host cannot free any.
  int64_t arrays() const;
  // Number of bytes for which these hosts charge sessions.
  int64_t charged_bytes() const;
  // Number of names of commands that these hosts keep.
  int64_t had_names() const;
  std::map<std::string, std::vector<int>> Launches() const;

 private:
  void StartController();
  void EndController(const std::string& places, absl::Duration away);
  void Born(int number);
  std::string IslandOf(int number) const;
  void ExpectLoss(const std::string& host, absl::Duration within);
  void ExpectKept(Host* life, int64_t arrays, absl::Duration after);

  const Scenario scenario_;
  World* const world_;
  Network network_;
  Referee referee_;
  std::vector<std::unique_ptr<Process>> clients_;
  std::vector<std::unique_ptr<Process>> controllers_;
  std::vector<std::unique_ptr<net::Transport>> controller_transports_;
  std::vector<std::shared_ptr<controller::ClusterImpl>> clusters_;  // the last is the current one
  std::vector<std::shared_ptr<session::SessionService>> services_;
  std::vector<std::vector<std::unique_ptr<Host>>> hosts_;  // lives, by number
};

}  // namespace pw::sim
