// Fifo: first come, first served, with one queue for all clients. Ignores weights and priorities.
#pragma once

#include "pathways/gang/policy.h"

namespace pw::gang {

class Fifo final : public Policy {
 public:
  const char* name() const override { return "fifo"; }
  int64_t GangRank(uint64_t sequence, int64_t submitted_ns) const override;
  int64_t ClientRank(ClientId) const override { return 0; }
  bool SetShare(ClientId, const Share&) override { return false; }
  bool OnActive(ClientId) override { return false; }
  bool OnGrant(ClientId, int64_t) override { return false; }
  bool OnDone(ClientId, int64_t, int64_t) override { return false; }
  void Forget(ClientId) override {}
};

}  // namespace pw::gang
