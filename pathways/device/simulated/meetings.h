// Meetings: makes the hosts of a simulated launch over several hosts wait for each other, as real collectives do.
//
// Invariants:
//   ME-1  the parties of a launch begin together: none before all have arrived
//   ME-2  an error of one party, or an abort, reaches those that have arrived at once, and the others when they arrive
//   ME-3  all parties get the same start time: the latest of their arrival times
// Any thread. Calls back outside its lock, on the thread of the last arrival.
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

  // Records that one of `parties` is ready to launch `launch` at time `at`. `status`: not OK if it cannot take part.
  void Arrive(int launch, int parties, absl::Time at, const absl::Status& status, Then then);
  // Fails a launch that will not take place. Also valid before the first arrival.
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
