// Repeated moves: a Send or Receive of a Move that stands for many, which differ in numbers that grow by the same steps (worker.proto,
// Move.Repeat). So a transfer between arrays that are cut evenly takes a few entries for each pair of hosts, however many shards
// they have, from the planner to the host that carries it out.
//
// MoveRuns joins entries as they come, ForEach... is the way back. Joining is greedy, in the order in which entries come: runs of
// entries, and runs of alike runs (rows that are each cut into pieces). What does not go on evenly is an entry of its own, so that in
// the worst case the list is what it stands for.
//
// Invariants (property-tested):
//   RM-1  what the joined list stands for is what was given, in its order
//   RM-2  no entry stands for more than kMaxRepeated
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
  // `entry` is not repeated.
  void Add(const Entry& entry);
  // Nothing is added afterwards.
  std::vector<Entry> Take();

 private:
  // An entry, or a run of them, as numbers.
  struct Item {
    std::vector<int64_t> alike;  // the same in all of a run
    std::vector<int64_t> growing;
  };
  // A run of items of the level below.
  struct Run {
    Item first;
    std::vector<int64_t> last, step;  // of what grows; the step is known from the second on
    int64_t count = 0;

    bool Continue(const Item& next);
    void Begin(const Item& item);
  };
  static void SetItem(const Entry& entry, Item* item);
  void CloseInner();
  void CloseOuter();

  std::vector<Entry> entries_;
  Run inner_, outer_;
  size_t outer_entry_ = 0;  // where the open outer run begins
  Item scratch_;
};

extern template class MoveRuns<::pathways::v1::Move::Send>;
extern template class MoveRuns<::pathways::v1::Move::Receive>;

// Each that an entry stands for, in order.
void ForEachSend(const ::pathways::v1::Move& move, absl::FunctionRef<void(const ::pathways::v1::Move::Send&)> visit);
void ForEachReceive(const ::pathways::v1::Move& move, absl::FunctionRef<void(const ::pathways::v1::Move::Receive&)> visit);
// With an entry for each.
::pathways::v1::Move Expanded(const ::pathways::v1::Move& move);

}  // namespace pw::program
