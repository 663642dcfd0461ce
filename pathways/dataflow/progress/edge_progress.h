// EdgeProgress: progress tracking of one edge of a dataflow graph, in one run on one host. Messages travel on an edge from the shards of
// its source node to the shards of its destination node. EdgeProgress determines when each destination shard on this host has received
// all its messages, that is, when the edge closes for that shard. The class Run (run.h) has one per edge.
//
// Source hosts count the messages to each destination shard. When all shards of the source node on a host are done, the host
// reports its counts, without the zeros. A destination shard closes once every report that concerns it has come, and it has
// received as many messages as they announce. Reports go from host to host directly or along a tree (edge_plan.h).
//
//   - a source shard sends:    Sent() ──► a sequence number, which travels with the message
//   - a source shard is done:  SourceDone() ──► if it was the last on this host: reports to send
//   - a message comes:         Received() ──► false: a duplicate, drop it
//   - a report comes:          OnReport() ──► reports to pass on
//   - a source host is lost:   LoseHost()
//
// All but the first may close destination shards.
//
// A source shard that ends with an error poisons the destination shards that it might have sent to: its own on a one-to-one edge,
// all of them otherwise. A poisoned shard closes like any other, when all its messages have come. Of several errors, that of the
// lowest source shard counts, so all hosts name the same one.
//
// Single edges (Edge::single) need no reports: one message goes from each source shard to each of its destination shards, and the
// sequence number names the pair. A source shard that ends with an error sends it instead of each message that it has not sent
// (Effects::substitutes). So its error reaches only shards that have no message of it.
//
// A lost host fails its source shards at the moment of LoseHost. A destination shard that has received everything from them
// before closes like any other. Any other destination shard closes without the missing messages, with the host's error. If the
// host's last messages have reached some hosts and not others, their shards close with different results.
//
// Invariants:
//   EG-1  a destination shard closes once, after the last of its messages has been received, and never before all source shards
//         are done
//   EG-2  once all messages and reports have arrived, all destination shards have closed
//   EG-3  EG-1 and EG-2 hold if messages and reports arrive in any order, and if some arrive several times. They hold without the messages
//         and reports of hosts for which LoseHost was called
//   EG-4  nothing that a peer sends can break an invariant: a message or report that does not fit the plan is refused with an error
//   EG-5  memory is O(shards of the edge on this host + hosts it receives from + destination shards it sends to). On single edges
//         it is O(shards on this host + messages). Graphs that outlive their hosts add O(pairs of a host and a shard it sends to)
// Pure: no I/O, no clock. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/dataflow/progress/counts.h"
#include "pathways/dataflow/progress/edge_plan.h"
#include "pathways/dataflow/progress/sequence_set.h"

namespace pw::dataflow {

// The error with which a source shard ended.
struct Poison {
  uint32_t source_shard = 0;
  absl::Status status;
};

struct Report {
  // kDirect: from a source host to a destination host. kUp: to the root of the tree of source hosts. kDown: from the root of the tree of
  // destination hosts.
  enum class Way : uint8_t { kDirect, kUp, kDown };
  Way way = Way::kDirect;
  Counts counts;                // of messages to destination shards: kDirect the receiver's, kDown those of its subtree, kUp all
  std::vector<Poison> poisons;  // one-to-one: those of the receiver's shards, ascending; otherwise at most one
};

class EdgeProgress {
 public:
  // The effects of a call, for the caller to carry out in order.
  struct Effects {
    struct Outgoing {
      HostId to;
      Report report;
    };
    struct Closed {
      uint32_t shard;
      absl::Status status;  // the poison, or OK
    };
    // On single edges: an error to send instead of a message.
    struct Substitute {
      uint32_t destination;
      uint64_t sequence;
      absl::Status error;
    };
    std::vector<Outgoing> reports;
    std::vector<Substitute> substitutes;
    std::vector<Closed> closed;
  };

  // `plan` outlives this object. REQUIRES: the plan is not idle, that is, this host has shards at one end of the edge.
  explicit EdgeProgress(const EdgePlan* plan);

  // Returns whether the source shard may send to the destination shard now: the plan allows it, and a single edge has not had its message.
  bool MaySend(uint32_t source, uint32_t destination) const;
  // Counts a message. Returns its sequence number: among this host's messages to the destination's host, or on single edges of the pair.
  // REQUIRES: MaySend, and the source shard is on this host and not done.
  uint64_t Sent(uint32_t source, uint32_t destination);
  // Returns whether a source shard has sent all the messages that a single edge demands. True on other edges.
  bool HasSentAll(uint32_t source) const;
  // Ends a source shard. REQUIRES: `source` is one of plan.sources, and has not ended before. `status` is an error unless HasSentAll.
  void SourceDone(uint32_t source, const absl::Status& status, Effects* effects);
  // Takes in a message for a shard of this host; `error` is not OK if it is the substitute of one. Returns true if it is new.
  // INVALID_ARGUMENT: `from` cannot have sent it.
  absl::StatusOr<bool> Received(HostId from, uint64_t sequence, uint32_t destination, const absl::Status& error,
                                Effects* effects);
  // Takes in a report; ignores a repeated one. INVALID_ARGUMENT: it does not fit the plan.
  absl::Status OnReport(HostId from, const Report& report, Effects* effects);
  // Nothing more will come from the host. If `status` is OK, its shards count as done without an error. REQUIRES: plan.outlives_hosts.
  void LoseHost(HostId host, const absl::Status& status, Effects* effects);

  // Returns whether all is done: own reports have been sent, others' passed on, and destination shards have closed.
  bool finished() const { return sources_open_ == 0 && up_missing_ == 0 && !down_waits_ && unreported_ == 0 && open_ == 0; }

 private:
  struct Destination {
    uint64_t received = 0;
    uint64_t expected = 0;
    bool closed = false;
  };

  void ReportOwn(Effects* effects);
  void Contribute(const Report& report, Effects* effects);
  absl::Status OnDirect(HostId from, const Report& report, Effects* effects);
  absl::Status OnUp(HostId from, const Report& report, Effects* effects);
  absl::Status OnDown(HostId from, const Report& report, Effects* effects);
  absl::Status CheckReport(HostId from, const Report& report) const;
  void PassDown(const Report& report, Effects* effects);
  void Expect(HostId from, const Report& report);
  void Balance(HostId from, size_t index, int64_t messages);
  void SingleDone(uint32_t source, const absl::Status& status, Effects* effects);
  uint64_t PairNumber(uint32_t source, uint32_t destination) const;
  bool IsPair(uint64_t sequence, uint32_t destination, uint32_t* source) const;
  absl::StatusOr<bool> ReceivedSingle(HostId from, uint64_t sequence, size_t index, const absl::Status& error, Effects* effects);
  void TakeSingle(size_t index, uint32_t source, const absl::Status& error, Effects* effects);
  void LoseSingles(HostId host, const absl::Status& status, Effects* effects);
  void LoseReported(HostId host, const absl::Status& status);
  void PoisonShard(size_t index, uint32_t source, const absl::Status& status);
  absl::Status StatusOf(size_t index) const;
  void AddPoisons(const std::vector<Poison>& poisons, std::vector<Poison>* to) const;
  void CloseIfComplete(size_t index, Effects* effects);
  void CloseComplete(Effects* effects);
  bool AllReported() const { return unreported_ == 0 && !down_waits_; }

  const EdgePlan* const plan_;
  // State as a source host.
  absl::flat_hash_map<uint32_t, uint64_t> sent_;  // by destination shard; freed once reported
  absl::flat_hash_map<HostId, uint64_t> last_sequence_;
  absl::flat_hash_set<uint64_t> sent_pairs_;  // single edges: of source shards that are not done
  std::vector<Poison> own_poisons_;
  uint32_t sources_open_;
  // State as a node of the tree of source hosts.
  Report up_;
  std::vector<bool> up_reported_;  // by child
  uint32_t up_missing_ = 0;        // reports still missing: children's, and this host's own
  // State as a destination host.
  bool down_waits_ = false;     // tree: the parent's report has not come
  std::vector<bool> reported_;  // direct: by reporter
  uint32_t unreported_ = 0;
  std::vector<Destination> destinations_;              // by position in plan.destinations
  std::vector<Poison> poisons_;                        // of all destination shards, or on one-to-one edges each of its own
  absl::flat_hash_map<size_t, Poison> shard_poisons_;  // of single destination shards; the lowest of each
  uint32_t open_;
  absl::flat_hash_map<HostId, SequenceSet> seen_;
  absl::flat_hash_set<uint64_t> seen_pairs_;  // single edges
  // In graphs that outlive their hosts, by host and destination: messages reported minus messages received. Zeros are omitted.
  absl::flat_hash_map<std::pair<HostId, size_t>, int64_t> balances_;
};

}  // namespace pw::dataflow
