// HostLosses: the errors of lost hosts, and errors of other hosts that wait to be explained by a loss. Fabric owns it.
// Strand-confined.
//
// A host often notices before the controller that another host is gone: a collective or a transfer between them ends. Its error
// names the other host (base/unreachable_host.h). Users read the error of the loss instead, which says which host, since when,
// and what happens next.
//
// Invariants:
//   HX-1  each error that names a host is explained once: by the loss of that host, or, if the host is not lost within
//         `patience`, as a cut network between the two hosts
//   HX-2  the number of remembered losses is bounded
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/clock.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

class HostLosses {
 public:
  using Then = absl::AnyInvocable<void(const absl::Status&) &&>;

  // All pointers must outlive this.
  HostLosses(Clock* clock, const resource::Topology* topology) : clock_(clock), topology_(topology) {}

  // Sets how long errors wait for the loss of the host that they name.
  void set_patience(absl::Duration patience) { patience_ = patience; }

  // Calls `then` with the error that users get instead of a host's error, maybe inside this call.
  void Explain(HostId reporter, const absl::Status& error, Then then);
  // Notes the loss of a host: explains the errors that name it.
  void OnHostLost(HostId host, const absl::Status& loss);
  void OnTick(absl::Time now);
  // Returns the error of the loss of a host that is not present.
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
