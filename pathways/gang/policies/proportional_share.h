// ProportionalShare: divides device time among clients in proportion to their weights (stride scheduling on measured time).
//
// Each client has a virtual time: the device time that it got, divided by its weight. The client with the least virtual time goes
// first. A grant is charged with its prediction, so that a burst of grants is spread before any of them has run. The charge is
// corrected when the measured time is known.
//
// Work-conserving: ranks only order the clients that have work. No hoarding: idling earns nothing. The island's virtual time is
// the largest at which a gang was granted. A client that returns after a time without work starts there if it is behind; one that
// is ahead stays ahead. A new weight applies to later grants.
//
// The rank is the virtual time in steps of `grain_us`. Within a step the policy is indifferent (policy.h). A client is at most one
// step and one window of grants away from its share.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "pathways/gang/policy.h"

namespace pw::gang {

class ProportionalShare final : public Policy {
 public:
  explicit ProportionalShare(double grain_us = 1000) : grain_us_(grain_us) {}

  const char* name() const override { return "share"; }
  int64_t GangRank(uint64_t, int64_t) const override { return 0; }
  int64_t ClientRank(ClientId client) const override;
  bool SetShare(ClientId client, const Share& share) override;
  bool OnActive(ClientId client) override;
  bool OnGrant(ClientId client, int64_t predicted_device_ns) override;
  bool OnDone(ClientId client, int64_t predicted_device_ns, int64_t measured_device_ns) override;
  void Forget(ClientId client) override { accounts_.erase(client); }

 private:
  struct Account {
    double weight = 1;
    double virtual_us = 0;
    int outstanding = 0;      // grants that are not done
    int older = 0;            // of these, grants before the last change of the weight; they are assumed to be done first
    double older_weight = 1;  // the weight at which the older ones were charged
  };
  bool Charge(Account& account, int64_t device_ns, double weight);
  int64_t RankOf(const Account& account) const;

  const double grain_us_;
  double island_us_ = 0;  // the island's virtual time
  absl::flat_hash_map<ClientId, Account> accounts_;
};

}  // namespace pw::gang
