// Meetings: where the hosts of a simulated launch over several wait for each other, as collectives make real ones do.
//
// Invariants:
//   MG-1  the parties of a launch begin together: none before all have arrived
//   MG-2  an error of one, or an abort, reaches those that have arrived at once, and the others when they arrive
//   MG-3  all are told the same time: the latest of those that they came at
// Any thread. Calls back outside its lock, on the thread of the last to arrive.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pw::device {

class Meetings {
 public:
  using Then = absl::AnyInvocable<void(const absl::Status&, absl::Time) &&>;

  // One of `parties` has come to launch `launch`, as of `at`; `status`: what keeps it from taking part.
  void Arrive(int launch, int parties, absl::Time at, const absl::Status& status, Then then);
  // The launch will not take place; also one that nobody has come to yet.
  void Abort(int launch, const absl::Status& why);

 private:
  struct Meeting {
    int arrived = 0;
    absl::Time latest = absl::InfinitePast();
    absl::Status status;
    std::vector<Then> waiting;
  };

  std::mutex mu_;
  std::map<int, Meeting> meetings_;  // by launch; guarded by mu_
};

}  // namespace pw::device
