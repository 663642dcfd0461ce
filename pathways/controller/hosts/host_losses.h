// HostLosses: why hosts were lost, and the errors of other hosts that wait for it. Fabric owns it. Strand-confined.
//
// A host often notices before the controller that another one is gone: a collective or a transfer between them ends. Its error names the
// other (base/unreachable_host.h). Users read the error of the loss instead, which says which host, since when, and what happens next.
//
// Invariants:
//   HL-1  each error is explained once: when its host is lost; or, if that host is heard of on, after `patience`: then the way between the
//         two hosts is cut
//   HL-2  what is kept of lost hosts is bounded
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/ids.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

class HostLosses {
 public:
  using Then = absl::AnyInvocable<void(const absl::Status&) &&>;

  // All pointers must outlive this.
  HostLosses(Clock* clock, const resource::Topology* topology) : clock_(clock), topology_(topology) {}

  // How long errors wait for the loss of the host that they name.
  void set_patience(absl::Duration patience) { patience_ = patience; }

  // Calls `then` with what users are told of a host's error, perhaps now.
  void Explain(HostId reporter, const absl::Status& error, Then then);
  // The host is lost: explains the errors that name it.
  void OnHostLost(HostId host, const absl::Status& loss);
  void OnTick(absl::Time now);
  // Returns the error of the loss of a host that is not there.
  absl::Status Of(HostId host) const;

  size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    HostId reporter;
    HostId unreachable;
    absl::Time until;
    absl::Status error;
    Then then;
  };
  std::string NameOf(HostId host) const;
  absl::Status Cut(const Waiting& waiting) const;

  Clock* const clock_;
  const resource::Topology* const topology_;
  absl::Duration patience_ = absl::Seconds(15);
  absl::flat_hash_map<HostId, absl::Status> lost_;
  std::deque<HostId> lost_order_;
  std::vector<Waiting> waiting_;  // in the order of their ends
};

}  // namespace pw::controller
