// Network: the links between simulated processes, as a net::Transport for each.
//
// A frame leaves when the sender's bulk link is free; urgent frames do not wait for it. It occupies the link for its size over
// the bandwidth, and arrives after the latency and some jitter. Frames of one lane (net::Lane: urgent or bulk) never overtake each
// other. Processes of the same island use the fast link (NetworkOptions::inside), all others the slower one (between).
//
// Faults. The connections of a killed process close at their other ends one latency later; those of a machine that lost power
// stay open and silent. A partition holds back all frames until it heals, as TCP does. CutOff ends the connections of a process,
// CutLink those between two processes. A disturbance delays frames. A random delay also reorders them: across connections and
// lanes, never within a lane. Planted bugs break the transport's promises, to prove that the invariants of a run detect it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "pathways/net/transport.h"
#include "pathways/sim/process.h"
#include "pathways/sim/repeats.h"
#include "pathways/sim/world.h"

namespace pw::sim {

struct LinkSpeed {
  absl::Duration latency;
  absl::Duration jitter;
  double bytes_per_second;
};

struct NetworkOptions {
  LinkSpeed inside{absl::Microseconds(10), absl::Microseconds(5), 10e9};
  LinkSpeed between{absl::Microseconds(50), absl::Microseconds(20), 1e9};
};

// A bug to plant, at a rate of one in n. kLoseFrame to kDamageFrame hit one frame in n. With kHushEnd the connections of one dying
// process in n are not reported as closed. With kPatience the controller always tolerates silence for twice the limit. The other
// bugs change one in n of the messages that can be wrong in this way (mistakes.h).
enum class Bug {
  kNone,
  kLoseFrame,
  kRepeatFrame,
  kSwapFrames,
  kDamageFrame,
  kHushEnd,
  kPatience,
  kWrongOrder,
  kFreedEarly,
  kForgottenRelease,
  kWrongPlan,
  kWrongDonation,
  kForgottenCompletion,
  kSkippedFrame,
  kForgottenNames,
  kWrongName,
  kShortReport
};

class Network {
 public:
  Network(World* world, const NetworkOptions& options);
  ~Network();

  // Returns the transport of a process. The network and the process must outlive it; the process must outlive its connections.
  std::unique_ptr<net::Transport> TransportOf(Process* process);

  // Travel: the time that `bytes` need between two processes if they leave now. OnLink: how long they occupy the link.
  absl::Duration Travel(const Process& from, const Process& to, size_t bytes);
  absl::Duration OnLink(const Process& from, const Process& to, size_t bytes) const;

  // Removes a dead process's ends of its connections. `silently`: the other ends are not told.
  void Cut(const Process& process, bool silently);
  // Ends the connections of the process: frames under way are lost, and both ends are told. It can make none until `until`.
  void CutOff(const Process& process, absl::Time until);
  // Ends the connections between two processes, and they can make none until `until`.
  void CutLink(const Process& a, const Process& b, absl::Time until);
  bool IsLinkCut(const Process& a, const Process& b) const;
  // Separates the named processes from all others until `until`.
  void Partition(std::set<std::string> processes, absl::Time until);
  // Delays frames to and from the process until `until`; `by_chance`: each by a random part of `by`.
  void Disturb(const std::string& process, absl::Duration by, bool by_chance, absl::Time until);
  void Plant(Bug bug, uint64_t one_in);  // makes the network show this bug from now on
  // Lets controllers repeat commands to hosts (repeats.h).
  void Repeat(uint64_t one_in, std::function<bool(SessionId)> is_open) {
    repeats_ = std::make_unique<Repeats>(world_, one_in, std::move(is_open));
  }
  // Returns how many commands have been repeated.
  uint64_t repeated() const { return repeats_ == nullptr ? 0 : repeats_->repeated(); }
  // Returns how many commands came after their requests were settled, as Repeats counts them: 0, unless there is a bug.
  uint64_t after_settled() const { return repeats_ == nullptr ? 0 : repeats_->after_settled(); }

  struct Count {
    uint64_t frames = 0;
    uint64_t bytes = 0;
  };
  struct Totals {
    uint64_t frames = 0;
    uint64_t bytes = 0;
    uint64_t bytes_between_islands = 0;
    Count to_hosts;    // by controllers
    Count from_hosts;  // to controllers
    Count between_hosts;
  };
  const Totals& totals() const { return totals_; }

 private:
  friend class Wire;
  class Host;
  friend class SimConnection;
  struct Listening;

  struct Disturbance {
    std::string process;
    absl::Duration by;
    bool by_chance;
    absl::Time until;
  };

  absl::Duration HeldBack(const Process& a, const Process& b) const;
  const LinkSpeed& SpeedOf(const Process& a, const Process& b) const;
  absl::Duration Disturbed(const Process& a, const Process& b);
  void CountFrame(const Process& from, const Process& to, size_t bytes);
  bool IsCutOff(const Process& process) const;
  bool StrikesFrame();  // by a planted bug of the transport
  // Repeats commands in a frame of a controller to a host.
  void AddRepeats(const Process& from, const Process& to, std::string* header, std::vector<Bytes>* payload);
  // Applies a planted bug of the sender.
  void Mistake(const Process& from, const Process& to, std::string* header);

  World* const world_;
  const NetworkOptions options_;
  std::map<std::string, std::shared_ptr<Listening>> listening_;
  std::map<const Process*, std::vector<std::weak_ptr<class Wire>>> wires_;
  std::set<std::string> apart_;
  absl::Time apart_until_ = absl::InfinitePast();
  std::map<const Process*, absl::Time> cut_off_until_;
  std::map<std::set<const Process*>, absl::Time> link_cut_until_;  // by both ends
  std::vector<Disturbance> disturbances_;
  Bug bug_ = Bug::kNone;
  uint64_t one_in_ = 1;
  uint64_t next_port_ = 1;
  Totals totals_;
  std::unique_ptr<Repeats> repeats_;
};

}  // namespace pw::sim
