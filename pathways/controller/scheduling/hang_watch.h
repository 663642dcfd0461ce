// HangWatch: finds gangs that are granted and take far longer than predicted. Pure: the caller passes in the gangs, once a tick.
//
// A gang's time counts from the first look at which it heads its hosts: no gang that was granted earlier still has one of them.
// It is a suspect once that time exceeds both `least` and `factor` times its prediction. A gang of a program that was never
// measured has no prediction; it is a suspect after `unmeasured`, because a first run may be long.
//
// A suspect need not hang: its inputs may come from a gang of other hosts that is within its time. Only the hosts know that
// (MayWaitForAnother).
//
// Invariants:
//   HW-1  a gang is named once, and its end is reported once if it was named
//   HW-2  time that the controller itself was stopped counts for no gang (Forgive)
// Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/controller/options.h"
#include "pathways/gang/ids.h"

namespace pw::controller {

class HangWatch {
 public:
  struct Gang {
    gang::GangId gang;
    SessionId session;
    bool heads = false;
    std::optional<absl::Duration> predicted;  // none: never measured
  };
  struct Hang {
    Gang gang;
    absl::Time since;  // when it began to head its hosts
    bool named = false;
  };

  explicit HangWatch(const HangOptions& options) : options_(options) {}

  // Takes all gangs that are granted and not done. Returns the named gangs that are not among them any more.
  std::vector<Hang> Look(absl::Time now, absl::Span<const Gang> underway);
  // Returns the suspects, by gang, named or not.
  std::vector<Hang> Suspects(absl::Time now) const;
  // Marks a gang as named. Returns false if it was named before, or is gone.
  bool Name(gang::GangId gang);
  // Begins the times of all gangs anew.
  void Forgive(absl::Time now);
  // Returns whether a suspect that waits for inputs on all its hosts may wait for a gang of its client that is within its time.
  bool MayWaitForAnother(const Hang& suspect, absl::Time now) const;

 private:
  bool IsLate(const Hang& hang, absl::Time now) const;

  const HangOptions options_;
  std::map<gang::GangId, Hang> watched_;  // those that head their hosts
};

}  // namespace pw::controller
