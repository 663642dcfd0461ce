// OpsInFlight: the commands that hosts have not reported complete, and the arrays that wait for them. Fabric owns it. Strand-confined.
//
// An op names one command to one host. It holds the arrays that it makes weakly: a client may drop them before they exist.
//
// Invariant OF-1: each op completes exactly once: by its host's Done, even if that arrives repeatedly or through another host, or
// by the loss of its host. An error that blames another host is explained first (host_losses.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/hosts/host_losses.h"
#include "pathways/controller/scheduling/gangs.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

using WeakArrays = std::vector<std::weak_ptr<buffers::LogicalArray>>;

class OpsInFlight {
 public:
  // `device_microseconds` is set only if the command asked for it.
  using Callback = absl::AnyInvocable<void(const absl::Status& status, std::optional<double> device_microseconds) &&>;

  // Returns the number of a new op. The ops of several hosts may share `results`: each array gets one completion from each op.
  // `gang`: the computation of which the op is one host's part. `joint`: the command has parts on many hosts, so its completion
  // may arrive together with theirs (ReportGroups::Join; worker.proto, Report). Joint ops have odd numbers.
  OpId Add(HostId host, std::shared_ptr<const WeakArrays> results, Callback done = nullptr, gang::GangId gang = {},
           bool joint = false);
  // Both must outlive this. `losses` explains the errors that blame another host.
  void Set(Gangs* gangs, HostLosses* losses) {
    gangs_ = gangs;
    losses_ = losses;
  }

  // Ignores unknown ops, and ops of other hosts.
  void OnDone(HostId host, const ::pathways::v1::Done& done);
  void OnHostLost(HostId host, const absl::Status& error);

  size_t size() const { return ops_.size(); }
  size_t CountFor(HostId host) const;
  // Returns the hosts that have not finished their part of a gang, each with the op of that part.
  std::map<HostId, OpId> HostsOf(gang::GangId gang) const;

 private:
  struct Op {
    HostId host;
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

  absl::flat_hash_map<uint64_t, Op> ops_;
  uint64_t next_ = 1;
  Gangs* gangs_ = nullptr;
  HostLosses* losses_ = nullptr;
};

}  // namespace pw::controller
