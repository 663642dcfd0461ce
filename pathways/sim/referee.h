// Referee: what a simulated run is held against. It knows which faults were done to whom, sees what the cluster made of them, and
// collects what should not have happened.
//
// A host has a life: the name it joined under and the number of the join. It is *struck* when a fault hit it, and *lost* when the
// controller has given it up. Who has died may be missed by others before that: their word of it is not later than the controller's
// where messages are delayed.
//
// Invariants that it checks:
//   RF-1  a host is lost only if it was struck
//   RF-2  a host that died is lost within kNoticeDeath; one that went silent within the heartbeat limit and a quarter
//   RF-3  a read gives the value that arithmetic says, or the error of a lost or dead host, by its name, that the value depends on
//   RF-4  every request is answered once
//   RF-5  two hosts that launched the same two computations did so in the same order, and each once
//   RF-6  after the sessions have ended no host holds an array
//   RF-7  after that the controller waits for no completion, if nobody was struck
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pathways/controller/cluster_impl.h"
#include "pathways/sim/world.h"

namespace pw::sim {

class Referee {
 public:
  static constexpr absl::Duration kNoticeDeath = absl::Seconds(1);

  explicit Referee(World* world) : world_(world) {}

  // The cluster to look at; again after a new controller has started.
  void Watch(controller::ClusterImpl* cluster) { cluster_ = cluster; }
  void Violation(const std::string& what);
  void Struck(const std::string& host) { struck_.insert(host); }
  // Its process is no more; it is struck.
  void Died(const std::string& host) { died_.insert(host); }
  // The controller died: everything may fail from now on, with UNAVAILABLE.
  void ControllerDied() { controller_died_ = true; }
  bool controller_died() const { return controller_died_; }

  // "w3 of island i0" as the controller knows it now; with the number of its host, which no other life has.
  std::string HostOf(int32_t device);
  bool Lost(const std::string& host);
  // Whether something that was on these hosts may fail with this error, and its text says whose fault it is.
  bool Excused(const std::set<std::string>& places, const absl::Status& error);

  // RF-1, now. RF-5, of what the hosts launched, by host.
  void CheckHosts();
  void CheckLaunches(const std::map<std::string, std::vector<int>>& launches);
  // RF-7, at the end.
  void CheckCompletions();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  World* const world_;
  controller::ClusterImpl* cluster_ = nullptr;
  bool controller_died_ = false;
  std::set<std::string> struck_;
  std::set<std::string> died_;
  std::map<int32_t, std::string> host_of_device_;
  std::map<std::string, uint32_t> ids_;  // of every host ever seen
  std::vector<std::string> violations_;
};

}  // namespace pw::sim
