// SimCluster: a whole cluster in one process: the real controller with its front door, and real workers with simulated devices.
//
// It replaces three seams and nothing else: the network, the clock with its timers and threads, and the devices. What runs above
// them is the code of a deployed cluster.
//
// A host has a number and lives one life after another; the worker of life L of host h joins under the name "w<h>.<L>". What has
// died stays allocated until the world ends: tasks under way may still point to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pathways/controller/cluster_impl.h"
#include "pathways/sim/client.h"
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

  // Runs until all hosts have joined. False if they do not within a minute.
  bool Form();

  FrontDoor& door() { return *door_; }
  // The living one. For tests that look at it between two events.
  controller::ClusterImpl& controller() { return *clusters_.back(); }
  Network& network() { return network_; }
  Referee& referee() { return referee_; }
  World& world() { return *world_; }
  // How many host numbers there are, also of hosts without a life.
  int hosts() const { return static_cast<int>(hosts_.size()); }
  Host& host(int number) { return *hosts_[number].back(); }
  bool alive(int number) const { return !hosts_[number].back()->process().dead(); }

  // --- faults ---
  void CrashHost(int number, bool silently);
  void StopHost(int number, absl::Duration duration);
  void SlowHost(int number, double factor, absl::Duration duration);
  void PartHost(int number, absl::Duration duration);
  // Frames to and from it take longer, `by_chance` each by another time.
  void DelayHost(int number, absl::Duration by, bool by_chance, absl::Duration duration);
  // A new life of a dead host, or a host that was not there before.
  void StartHost(int number);
  int AddHost();
  // The controller dies and a new one takes its address after so long.
  void CrashController(absl::Duration away);

  // Clients that are told when the controller dies. They outlive the cluster or leave.
  void Follow(Client* client) { clients_.push_back(client); }
  void Unfollow(Client* client) { std::erase(clients_, client); }

  // Arrays on all hosts that are up: what hangs cannot free anything.
  int64_t arrays() const;
  std::map<std::string, std::vector<int>> Launches() const;

 private:
  void StartController();
  void Born(int number);
  std::string IslandOf(int number) const;
  void ExpectLoss(const std::string& host, absl::Duration within);

  const Scenario scenario_;
  World* const world_;
  Network network_;
  Referee referee_;
  std::vector<std::unique_ptr<Process>> controllers_;
  std::vector<std::unique_ptr<net::Transport>> controller_transports_;
  std::vector<std::unique_ptr<FrontDoor>> doors_;
  std::vector<std::shared_ptr<controller::ClusterImpl>> clusters_;  // the last is the living one
  FrontDoor* door_ = nullptr;
  std::vector<std::vector<std::unique_ptr<Host>>> hosts_;  // lives, by number
  std::vector<Client*> clients_;
};

}  // namespace pw::sim
