// EdgeProgress: for one run of one edge on one host, tells each destination shard here when it has received all of its messages.
//
// Senders count what they send to each destination shard. When all shards of the source node on a host are done, the host reports
// its counts (only those that are not zero); a destination shard closes once every report that concerns it is in and it has
// received as many messages as they promise. edge_plan.h says which way the reports take.
//
//   source shard sends       Sent() ──► a sequence number, which travels with the message
//   source shard is done     SourceDone() ──► when it was the last here: reports to send
//   message comes            Received() ──► false: a duplicate, drop it
//   report comes             OnReport() ──► reports to pass on
//   any of them              may close destination shards
//
// A source shard that is done with an error poisons the destination shards that it might have sent to: its own on a one-to-one
// edge, all of them otherwise. A poisoned shard closes like any other, when all that was sent has come; of several errors the one
// of the lowest source shard counts, so every host names the same.
//
// Invariants:
//   EG-1  a destination shard closes once, after the last of its messages has been received, and never before all source shards
//         are done
//   EG-2  when everything sent has arrived, all have closed
//   EG-3  EG-1 and EG-2 hold in whatever order messages and reports arrive, and however often each of them does
//   EG-4  nothing that comes from outside can break an invariant: what does not fit the plan is refused with a status
//   EG-5  memory is O(shards of the edge on this host + hosts it hears from + destination shards it sends to)
// Pure: no I/O, no clock. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  enum class Way : uint8_t { kDirect, kUp, kDown };
  Way way = Way::kDirect;
  Counts counts;                // to the destination shards that the receiver is responsible for
  std::vector<Poison> poisons;  // one-to-one: those of the receiver's shards, ascending; else at most one
};

class EdgeProgress {
 public:
  // What a call brings about, in order.
  struct Effects {
    struct Outgoing {
      HostId to;
      Report report;
    };
    struct Closed {
      uint32_t shard;
      absl::Status status;  // the poison, or OK
    };
    std::vector<Outgoing> reports;
    std::vector<Closed> closed;
  };

  // The plan outlives this. REQUIRES: it is not idle.
  explicit EdgeProgress(const EdgePlan* plan);

  // One message to `destination` is on its way. Returns its sequence number among those from here to the destination's host.
  // REQUIRES: the plan allows it, and a source shard here is not done.
  uint64_t Sent(uint32_t destination);
  // REQUIRES: `source` is one of plan.sources and was not done before.
  void SourceDone(uint32_t source, const absl::Status& status, Effects* effects);
  // A message for a shard of this host. True: it is new and counts. INVALID_ARGUMENT: `from` cannot have sent it.
  absl::StatusOr<bool> Received(HostId from, uint64_t sequence, uint32_t destination, Effects* effects);
  absl::Status OnReport(HostId from, const Report& report, Effects* effects);

  // Nothing is left to do: reports have left or been passed on, destination shards have closed.
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
  void Expect(const Report& report);
  void AddPoisons(const std::vector<Poison>& poisons, std::vector<Poison>* to) const;
  void CloseIfComplete(size_t index, Effects* effects);
  void CloseComplete(Effects* effects);
  bool AllReported() const { return unreported_ == 0 && !down_waits_; }

  const EdgePlan* const plan_;
  // As a source host.
  absl::flat_hash_map<uint32_t, uint64_t> sent_;  // by destination shard; freed once reported
  absl::flat_hash_map<HostId, uint64_t> last_sequence_;
  std::vector<Poison> own_poisons_;
  uint32_t sources_open_;
  // As a node of the tree of source hosts.
  Report up_;
  std::vector<bool> up_reported_;  // by child
  uint32_t up_missing_ = 0;        // children, and this host itself
  // As a destination host.
  bool down_waits_ = false;     // tree: the report from above has not come
  std::vector<bool> reported_;  // direct: by reporter
  uint32_t unreported_ = 0;
  std::vector<Destination> destinations_;  // by position in plan.destinations
  std::vector<Poison> poisons_;
  uint32_t open_;
  absl::flat_hash_map<HostId, SequenceSet> seen_;
};

}  // namespace pw::dataflow
