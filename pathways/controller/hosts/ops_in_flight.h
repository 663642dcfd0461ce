// OpsInFlight: the commands that hosts have not reported complete, and the arrays that wait for them. Fabric owns it. Strand-confined.
//
// An op names one command to one host; commands to other hosts may have the same op. It holds the arrays that it makes weakly: a
// client may drop them before they exist. The session that sends a command names it (names/request_names.h); the op holds the request that
// the name says (settlement.h).
//
// Invariant OF-1: each op completes exactly once: by its host's Done, even if that arrives repeatedly or through another host, or
// by the loss of its host. An error that blames another host is explained first (host_losses.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/hosts/host_losses.h"
#include "pathways/controller/hosts/settlement.h"
#include "pathways/controller/scheduling/gangs.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

using WeakArrays = std::vector<std::weak_ptr<buffers::LogicalArray>>;

// Returns the flow of an op in a trace of the cluster, where commands to several hosts may have the same op.
constexpr uint64_t FlowOf(HostId host, uint64_t op) { return op == 0 ? 0 : op + (uint64_t{host.v} << 40); }

class OpsInFlight {
 public:
  // `device_microseconds` is set only if the command asked for it.
  using Callback = absl::AnyInvocable<void(const absl::Status& status, std::optional<double> device_microseconds) &&>;

  // Adds an op. The ops of several hosts may share `results`: each array gets one completion from each op. `gang`: the computation of
  // which the op is one host's part. REQUIRES: the host has no such op in flight.
  void Add(HostId host, OpId op, std::shared_ptr<const WeakArrays> results, Callback done = nullptr, gang::GangId gang = {});
  // All must outlive this. `losses` explains the errors that blame another host.
  void Set(Gangs* gangs, HostLosses* losses, Settlement* settlement) {
    gangs_ = gangs;
    losses_ = losses;
    settlement_ = settlement;
  }

  // Ignores unknown ops, and ops of other hosts.
  void OnDone(HostId host, const ::pathways::v1::Done& done);
  void OnHostLost(HostId host, const absl::Status& error);

  size_t size() const { return ops_.size(); }
  size_t CountFor(HostId host) const;
  // Returns the hosts that have not finished their part of a gang, each with the op of that part.
  std::map<HostId, OpId> HostsOf(gang::GangId gang) const;

 private:
  using Key = std::pair<HostId, uint64_t>;
  struct Op {
    std::shared_ptr<const WeakArrays> results;
    Callback done;
    gang::GangId gang;
    absl::Status partial = absl::OkStatus();  // a failure that affects only some of the results
    int unexplained = 0;                      // partial failures whose reason is not known yet: the op ends after them
    absl::AnyInvocable<void() &&> complete = nullptr;
  };
  Op* Find(HostId host, uint64_t op);
  void Explain(HostId host, const ::pathways::v1::Status& error, HostLosses::Then then);
  void OnPoisoned(HostId host, const ::pathways::v1::Done::Poisoned& poisoned);
  void Poison(HostId host, const ::pathways::v1::Done::Poisoned& poisoned, const absl::Status& status);
  void Complete(HostId host, uint64_t op, const absl::Status& status, std::optional<double> timed, double busy_microseconds);
  void Finish(Op op, const absl::Status& status, std::optional<double> timed, double busy_microseconds);

  absl::flat_hash_map<Key, Op> ops_;
  Gangs* gangs_ = nullptr;
  HostLosses* losses_ = nullptr;
  Settlement* settlement_ = nullptr;
};

}  // namespace pw::controller
