// Observation: records for operators events, computations that hang, and what each user has used. ClusterImpl owns it.
//
// Once a tick it looks at the gangs under way (scheduling/hang_watch.h). If one takes too long, it asks the hosts what they do.
// It then names the gang, with the state of each host that has not finished, in an event, in the log and in the status report, and
// asks some of these hosts for the stacks of their threads, once. It asks nothing while no gang is late.
//
// Every half a minute it stores the use of each user (pathways/usage): device time, computations and compile time as counted. The
// bytes of the arrays that a session holds then count as if it had held them since the last time.
//
// Invariants:
//   OV-1  at most one examination is under way, and at most kMostStackQuestions for stacks
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/controller/event_log.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/scheduling/hang_watch.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/controller/status_report.h"
#include "pathways/usage/usage_meter.h"

namespace pw::controller {

// Returns, in words for people, what a host does for a gang. `op`: the host's part. `host`: its examination; null: it has not
// answered. Sets `program` to the program's name if it is empty. Pure.
std::string PartOf(SessionId session, OpId op, const ::pathways::v1::Examination* host, std::string* program);

class Observation {
 public:
  // The pointers must outlive this.
  Observation(const ClusterOptions& options, Fabric* fabric, Housekeeping* housekeeping, Clock* clock);

  // `slept`: this process was stopped for a while. `sessions`: those that are open.
  void Tick(bool slept, absl::Span<SessionImpl* const> sessions);
  // Counts the session's use from now on for this user; empty: an unknown one.
  void CountUsage(SessionId session, const std::string& user) { usage_.Open(session, user.empty() ? kUnknownUser : user); }
  void OnSessionEnded(SessionId session) { usage_.End(session); }
  // Sets the listener for device seconds, which Tick and StoreUsage call for each session that has computed.
  void OnDeviceSeconds(std::function<void(SessionId session, double seconds)> listener) {
    on_device_seconds_ = std::move(listener);
  }
  // Sets the listener for computations that hang, which is called once for each, with the client and a sentence, when the hosts have told their stacks
  // or have not in time.
  void OnHang(std::function<void(SessionId session, const std::string& text)> listener) { on_hang_ = std::move(listener); }
  // Stores the use since the last call. Tick calls it; ClusterImpl does so at the end.
  void StoreUsage(absl::Span<SessionImpl* const> sessions);
  void Note(std::string kind, std::string text, SessionId client = {});  // `client`: the one that it concerns; none: all
  void AddTo(StatusReport* report) const;

 private:
  static constexpr char kUnknownUser[] = "(unknown)";
  static constexpr size_t kMostStackQuestions = 16;
  static constexpr size_t kMostStackHosts = 4;  // that are asked for one gang
  using Examinations = Housekeeping::ExaminationsByHost;
  void CountDone();
  void LookAtGangs(absl::Time now);
  void Judge(const Examinations& examinations);
  void AskForStacks(const HangWatch::Hang& hang, const Examinations& examinations);
  void Tell(gang::GangId gang) const;
  void AddStacks(gang::GangId gang, HostId host, const ::pathways::v1::Stacks& stacks);
  HangStatus Describe(const HangWatch::Hang& hang, const Examinations& examinations, bool* only_inputs) const;

  Fabric* const fabric_;
  Housekeeping* const housekeeping_;
  Clock* const clock_;
  EventLog events_;
  HangWatch watch_;
  const usage::Store store_usage_;  // may be null
  usage::UsageMeter usage_;
  std::function<void(SessionId, double)> on_device_seconds_;    // may be null
  std::function<void(SessionId, const std::string&)> on_hang_;  // may be null
  absl::Time usage_stored_;
  bool asking_ = false;
  size_t asking_for_stacks_ = 0;
  std::map<gang::GangId, HangStatus> hangs_;  // named, and not ended
  uint64_t named_ = 0;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
