// RecentGangs: the computations that ended last, for the timeline of the operators' page (docs/operators.md). A ring of fixed size: more computations
// push out the oldest.
//
// It records only while an operator looks: from one call of Look until kForget after the last one. At other times a computation
// costs only the test of a flag.
//
// Invariants:
//   RG-1  records have consecutive numbers. A reader asks for those after the last one that it knows, and misses only records
//         that the ring has dropped; the numbers show how many
//   RG-2  at most kMost records are kept
// Pure: times are passed in. Strand-confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/gang/ids.h"

namespace pw::controller {

// The name and the devices of a computation: the same for all its launches.
struct GangLabel {
  using Ranges = absl::InlinedVector<std::pair<DeviceId, DeviceId>, 1>;  // first and last; ascending
  ExecutableId executable;
  std::string name;
  Ranges devices;  // physical ones

  // `devices`: ascending, each once.
  static Ranges RangesOf(absl::Span<const DeviceId> devices);
};

struct RecentGang {
  uint64_t number = 0;
  gang::GangId gang;
  SessionId session;
  std::shared_ptr<const GangLabel> label;
  int64_t granted_ns = 0;  // since the controller started; an estimate if the recording began later
  int64_t done_ns = 0;     // when its last host had reported
  int64_t busy_ns = 0;     // how long it kept each of its devices busy, on average
  bool failed = false;
};

class RecentGangs {
 public:
  static constexpr size_t kMost = 8192;
  static constexpr absl::Duration kForget = absl::Seconds(10);

  bool on() const { return on_; }
  // Records from now on, until Tick finds no call of Look for kForget.
  void Look(absl::Time now);
  // Stops recording, and forgets everything, if Look was not called for kForget.
  void Tick(absl::Time now);

  void Add(RecentGang gang);
  // Returns the records with a greater number than `after`, the oldest first.
  std::vector<RecentGang> After(uint64_t after) const;
  uint64_t last() const { return next_ - 1; }

 private:
  bool on_ = false;
  absl::Time looked_;
  uint64_t next_ = 1;
  std::deque<RecentGang> gangs_;
};

}  // namespace pw::controller
