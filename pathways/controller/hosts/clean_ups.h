// CleanUps: collects, over one turn of the strand, the executables, programs and sessions that hosts may free, and sends one message for
// each set of hosts. Fabric owns it and flushes it at the end of the turn.
//
// The message follows the turn's commands, none of which refers to the freed objects. In sequential dispatch, older commands of
// the session that refer to them may still wait in the outbox. The clean-up then waits for all commands of its session that wait
// or are being sent (dispatch/array_order.h).
// Strand-confined.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

class CleanUps {
 public:
  // `outbox` must outlive this, and this must outlive the last callback that `outbox` runs.
  explicit CleanUps(dispatch::Outbox* outbox) : outbox_(outbox) {}

  void Add(SessionId session, std::vector<HostId> hosts, ::pathways::v1::CleanUp what) {
    if (hosts.empty()) return;
    outbox_->order().DoAfterAll(session,
                                [this, hosts = std::move(hosts), what = std::move(what)] { gathered_[hosts].MergeFrom(what); });
  }

  using Send = absl::FunctionRef<void(const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what)>;
  void Flush(Send send) {
    if (gathered_.empty()) return;
    for (const auto& [hosts, what] : std::exchange(gathered_, {})) send(hosts, what);
  }

 private:
  dispatch::Outbox* const outbox_;
  std::map<std::vector<HostId>, ::pathways::v1::CleanUp> gathered_;
};

}  // namespace pw::controller
