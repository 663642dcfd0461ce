// Repeated moves: a compact form of Move commands, in which one Send or Receive stands for many whose numbers grow by constant steps
// (worker.proto, Move.Repeat). A transfer between evenly cut arrays then takes a few entries per pair of hosts, however many shards
// the arrays have. The planner writes this form; the host that carries out the command expands it.
//
// MoveRuns joins entries; ForEachSend and ForEachReceive expand them. Joining is greedy and keeps the order: it joins entries into
// runs, and runs that are alike into runs of runs (rows that are each cut into pieces). An entry that continues no run stays an entry
// of its own, so the joined list is never longer than the plain one.
//
// Invariants (property-tested):
//   MR-1  expanding the joined list gives the entries that were added, in their order
//   MR-2  no entry stands for more than kMaxRepeated
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/v1/worker.pb.h"

namespace pw::program {

inline constexpr int64_t kMaxRepeated = 1 << 20;

// Entry: Move::Send or Move::Receive.
template <class Entry>
class MoveRuns {
 public:
  // Adds an entry. REQUIRES: `entry` has no repeats.
  void Add(const Entry& entry);
  // Returns the joined entries. Nothing may be added afterwards.
  std::vector<Entry> Take();

 private:
  // The numbers of an entry or of a run.
  struct Item {
    std::vector<int64_t> alike;    // the same in all entries of a run
    std::vector<int64_t> growing;  // these grow by constant steps
  };
  // A run of entries, or of runs.
  struct Run {
    Item first;
    std::vector<int64_t> last, step;  // of the growing numbers; the step is known from the second item on
    int64_t count = 0;

    bool Continue(const Item& next);
    void Begin(const Item& item);
  };
  static void SetItem(const Entry& entry, Item* item);
  void CloseInner();
  void CloseOuter();

  std::vector<Entry> entries_;
  Run inner_, outer_;
  size_t outer_entry_ = 0;  // the entry at which the open outer run begins
  Item scratch_;
};

extern template class MoveRuns<::pathways::v1::Move::Send>;
extern template class MoveRuns<::pathways::v1::Move::Receive>;

// Calls `visit` for each plain entry that the move's entries stand for, in order.
void ForEachSend(const ::pathways::v1::Move& move, absl::FunctionRef<void(const ::pathways::v1::Move::Send&)> visit);
void ForEachReceive(const ::pathways::v1::Move& move, absl::FunctionRef<void(const ::pathways::v1::Move::Receive&)> visit);
// Returns the move in plain form, without repeats.
::pathways::v1::Move Expanded(const ::pathways::v1::Move& move);

}  // namespace pw::program
