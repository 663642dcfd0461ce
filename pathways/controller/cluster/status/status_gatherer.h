// StatusGatherer: answers requests for the status of the cluster. It asks the hosts, adds their answers to the report that the parts
// of the controller fill in, and removes from it what the asker must not see.
//
// Hosts that do not answer within ClusterOptions::status_timeout are reported without their answers. A request that does not make the hosts examine their
// machines gets the last examination of each host if it is younger than kExaminedFor. The controller examines its own machine together with them.
//
// Invariant GS-1: a user who asks learns nothing of other users' clients, slices and computations, except that devices are in use.
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/session.h"
#include "pathways/controller/status_report.h"

namespace pw::controller {

class StatusGatherer {
 public:
  static constexpr absl::Duration kExaminedFor = absl::Seconds(30);
  using User = std::optional<std::string>;  // whose clients are listed; none: all clients
  struct Sources {
    std::function<void(const User&, StatusReport*)> fill;  // all but the hosts' answers
    std::function<bool(SessionId, const std::string& user)> is_of;
  };

  // `housekeeping` must outlive this.
  StatusGatherer(ClusterContext context, Housekeeping* housekeeping, Sources sources)
      : context_(std::move(context)), housekeeping_(housekeeping), sources_(std::move(sources)) {}

  // `examine`: the hosts and the controller examine their machines for it, too. `done` runs once, in a task of its own, if the cluster lives.
  void Gather(User user, bool examine, ResultCallback<StatusReport> done);
  // Returns the time since the hosts were last asked for examinations.
  absl::Duration examined_ago() const { return context_.Now() - examined_; }

 private:
  struct Asked;  // a request that waits for the hosts
  struct Examined {
    absl::Time when;
    ::pathways::v1::Examination examination;
    double clock_ahead_seconds = 0;
  };

  void OnAnswer(const std::shared_ptr<Asked>& asked);
  StatusReport MakeReport(const Asked& asked) const;
  void Keep(const Asked& asked);
  void AddAnswers(const Asked& asked, StatusReport* report) const;

  const ClusterContext context_;
  Housekeeping* const housekeeping_;
  const Sources sources_;
  absl::Time examined_ = absl::InfinitePast();
  std::map<HostId, Examined> machines_;
  std::optional<::pathways::v1::Examination> own_machine_;  // the last one; none: not examined, or not known
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// Removes from a report what concerns clients of others: slices, hangs, events, and the memory that they use. Pure.
void HideOthers(const std::function<bool(SessionId)>& is_others, StatusReport* report);

}  // namespace pw::controller
