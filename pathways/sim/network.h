// Network: the links between simulated processes, as a net::Transport for each.
//
// A frame leaves when the sender's bulk link is free (urgent frames do not wait for it), takes its size over the bandwidth, and
// arrives a latency and some jitter later; frames of one lane never overtake each other. Processes of the same island have the
// fast link, all others the data-centre one.
//
// Faults: the connections of a process that was killed close at their other ends one latency later; those of a machine that lost
// power stay open and silent. A partition holds everything back until it heals, as TCP does. A disturbance makes the way of frames
// longer; by chance, if it is to reorder them: those of different connections and lanes overtake each other, those of a lane do not.
// Planted bugs break what a transport promises, to prove that the invariants of a run notice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/net/transport.h"
#include "pathways/sim/process.h"
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

// What a broken transport would do, to one frame in `one_in`; or to one process in so many that die: nobody hears that its
// connections are closed. What a broken controller would do: it takes silence for life twice as long as it should. And wrong messages of a
// controller or worker, one in so many that can be wrong in this way (mistakes.h).
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
  kForgottenCompletion
};

class Network {
 public:
  Network(World* world, const NetworkOptions& options);
  ~Network();

  // One for each process; both outlive it. The process outlives its connections.
  std::unique_ptr<net::Transport> TransportOf(Process* process);

  // The time that `bytes` need from one process to the other if they leave now; and how much of it they keep the link busy.
  absl::Duration Travel(const Process& from, const Process& to, size_t bytes);
  absl::Duration OnLink(const Process& from, const Process& to, size_t bytes) const;

  // The process is dead: its ends are gone. `silently`: nobody hears of it.
  void Cut(const Process& process, bool silently);
  // Between the named processes and all others, until then.
  void Partition(std::set<std::string> processes, absl::Time until);
  // Frames to and from the process take so much longer until then; `by_chance`: up to so much, each for itself.
  void Disturb(const std::string& process, absl::Duration by, bool by_chance, absl::Time until);
  void Plant(Bug bug, uint64_t one_in);

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
  bool StrikesFrame();  // by a planted bug of the transport
  // By one of the sender.
  void Mistake(const Process& from, const Process& to, std::string* header);

  World* const world_;
  const NetworkOptions options_;
  std::map<std::string, std::shared_ptr<Listening>> listening_;
  std::map<const Process*, std::vector<std::weak_ptr<class Wire>>> wires_;
  std::set<std::string> apart_;
  absl::Time apart_until_ = absl::InfinitePast();
  std::vector<Disturbance> disturbances_;
  Bug bug_ = Bug::kNone;
  uint64_t one_in_ = 1;
  uint64_t next_port_ = 1;
  Totals totals_;
};

}  // namespace pw::sim
