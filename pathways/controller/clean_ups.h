// CleanUps: what hosts may forget, gathered over one turn of the strand: for each set of hosts one message in the end.
//
// It leaves behind the commands of its turn, which do not name it any more. In sequential dispatch commands may still wait that do:
// then it waits for all of its session that waits, or is being sent (dispatch/array_order.h).
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
  // `outbox` and this outlive each other's last call.
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
