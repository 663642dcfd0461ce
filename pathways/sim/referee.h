// Referee: checks a simulated run. It knows which faults hit which hosts, watches how the cluster reacts, and collects violations.
//
// A host is identified with its life: the name under which it joined and the number of the join. It is *struck* when a fault hit it, and
// *lost* when the controller has given it up. Other hosts may notice a death before the controller does, where messages are delayed.
//
// Invariants that it checks:
//   RF-1  a host is lost only if it was struck
//   RF-2  a dead host is lost within kNoticeDeath; a silent one within 1.25 times the heartbeat limit
//   RF-3  a read yields the value that arithmetic predicts, or an error that names a lost or dead host on which the value depends
//   RF-4  every request is answered once
//   RF-5  two hosts that launched the same two computations did so in the same order, and each once
//   RF-6  no host holds an array after the sessions have ended, nor a name of a command, nor charges anybody for memory
//   RF-7  after that the controller waits for no completion, if no host was struck
//   RF-8  no two slices have one number, and a device of an exclusive slice carries no other
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/sim/world.h"

namespace pw::sim {

class Referee {
 public:
  static constexpr absl::Duration kNoticeDeath = absl::Seconds(1);

  explicit Referee(World* world) : world_(world) {}

  // Sets the cluster to watch; called again after a new controller has started.
  void Watch(controller::ClusterImpl* cluster) {
    cluster_ = cluster;
    epoch_ = 0;
  }
  void Violation(const std::string& what);
  void Struck(const std::string& host) {
    Observe();
    struck_.insert(host);
  }
  // The host's process is gone; this also counts as struck.
  void Died(const std::string& host) { died_.insert(host); }
  // The controller died: from now on anything may fail with UNAVAILABLE.
  void ControllerDied() { controller_died_ = true; }
  bool controller_died() const { return controller_died_; }

  // Returns the device's host as the controller knows it now: "w3.2", the second life of w3. If it has none: the lost one.
  std::string HostOf(int32_t device);
  bool Lost(const std::string& host);
  // Returns whether data that was on these hosts may fail with this error. It may if the error names a lost host that is one of
  // them, or had a seat of theirs before or after: a seat's host may change before the controller carries out a request.
  bool Excused(const std::set<std::string>& places, const absl::Status& error);

  // A client has got a slice; it releases it now.
  void OnSlice(SliceId slice, const std::vector<DeviceId>& devices, bool exclusive);
  void OnSliceReleased(SliceId slice) { slices_.erase(slice); }

  // Checks RF-1 now; checks RF-5 on the launches of each host.
  void CheckHosts();
  void CheckLaunches(const std::map<std::string, std::vector<int>>& launches);
  // Checks RF-7, at the end.
  void CheckCompletions();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void Observe();

  World* const world_;
  controller::ClusterImpl* cluster_ = nullptr;
  bool controller_died_ = false;
  std::set<std::string> struck_;
  std::set<std::string> died_;
  uint64_t epoch_ = 0;                              // of the topology, when it was observed last
  std::map<std::string, uint32_t> ids_;             // of all hosts ever seen
  std::map<std::string, std::set<DeviceId>> seat_;  // the devices of each
  struct Slice {
    std::vector<DeviceId> devices;
    bool exclusive = false;
  };
  std::map<SliceId, Slice> slices_;                 // that clients have
  std::set<std::string> said_;                      // each violation is told once, at its first time
  std::vector<std::string> violations_;
};

}  // namespace pw::sim
