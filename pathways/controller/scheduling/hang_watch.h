// HangWatch: finds gangs that are granted and take far longer than was predicted. Pure: it is told what is under way, once a tick.
//
// A gang's time counts from the first look at which it heads its hosts: no gang that was granted before it still has one of them. It is a suspect
// once that time exceeds both `least` and `factor` times its prediction. A gang of a program that has never been measured has no prediction; it is a
// suspect after `unmeasured`, because a first run may be long.
//
// A suspect need not hang: its inputs may come from a gang of other hosts that is within its time. Only the hosts know (MayWaitForAnother).
//
// Invariants:
//   HW-1  a gang is named once, and its end is told once if it was named
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
  // Returns false if the gang has been named before, or is gone.
  bool Name(gang::GangId gang);
  // All times begin anew.
  void Forgive(absl::Time now);
  // Whether a suspect that waits for inputs on all its hosts may wait for a gang of its client that is within its time.
  bool MayWaitForAnother(const Hang& suspect, absl::Time now) const;

 private:
  bool IsLate(const Hang& hang, absl::Time now) const;

  const HangOptions options_;
  std::map<gang::GangId, Hang> watched_;  // those that head their hosts
};

}  // namespace pw::controller
