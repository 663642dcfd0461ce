// StrictPriority: strict priority with aging. Higher priorities go first, but a gang gains one priority for each `aging_ns` that it
// has waited, so that even the lowest is granted in the end.
//
// All gangs age at the same rate, so their order never changes while they wait. The rank is the time of submission, less the
// client's priority times `aging_ns`, in steps of a millisecond. Within a step the policy is indifferent.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "pathways/gang/policy.h"

namespace pw::gang {

class StrictPriority final : public Policy {
 public:
  // `aging_ns` is rounded to whole steps, at least one.
  explicit StrictPriority(int64_t aging_ns);

  const char* name() const override { return "priority"; }
  int64_t GangRank(uint64_t sequence, int64_t submitted_ns) const override;
  int64_t ClientRank(ClientId client) const override;
  bool SetShare(ClientId client, const Share& share) override;
  bool OnActive(ClientId) override { return false; }
  bool OnGrant(ClientId, int64_t) override { return false; }
  bool OnDone(ClientId, int64_t, int64_t) override { return false; }
  void Forget(ClientId client) override { priorities_.erase(client); }

 private:
  const int64_t aging_steps_;
  absl::flat_hash_map<ClientId, int> priorities_;
};

}  // namespace pw::gang
