// UserQuotas: applies the limits of users (identity/quotas.h) to their sessions. ClientSessions owns it.
//
// Sessions. A user who has as many sessions as the quota allows waits for one of them to end. Those who wait are in one queue, the
// first come first, and each is told its position among its user's and the reason. A user at its limit delays no other user.
//
// Device time. Device seconds count for the day (UTC) in which the controller notices them. A user who has used up a day's quota
// may go on reading arrays, but computes no more until the day ends (Spent).
//
// Sessions of operators, and of processes of the controller's own user, have no limits: they are not passed to this class.
//
// Invariants:
//   UQ-1  Ask and Recheck open a session only while its user has fewer than its quota
//   UQ-2  a session that waits is opened at most once, and never after its client has gone
// Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/gang/share.h"
#include "pathways/identity/quotas.h"

namespace pw::controller {

class UserQuotas {
 public:
  struct Environment {
    std::function<identity::Quota(const std::string& user)> quota_of;
    std::function<absl::Time()> wall_clock;
  };
  struct Request {
    std::string user;
    std::string description;                           // of the client, for people
    std::optional<std::weak_ptr<void>> client;         // expired: it waits no more
    std::function<void(const std::string& why)> tell;  // takes a line for the user; may be null
    absl::AnyInvocable<void() &&> open;                // opens the session now; calls OnOpened inside, or fails
  };
  struct Queued {
    std::string user, description, why;
    int position = 0;  // among its user's
  };

  // `used`: the device seconds that users have used today, before this controller started.
  UserQuotas(Environment environment, const std::map<std::string, double>& used);

  // Opens the session, or queues it until Recheck finds room for it.
  void Ask(Request request);
  void OnOpened(SessionId session, const std::string& user);
  // Recheck has to follow, in a task of its own.
  void OnEnded(SessionId session);
  // Opens the sessions for which there is room, and tells the others what has changed. Call it also when quotas have changed, and
  // from time to time, as it notices clients that have gone.
  void Recheck();

  // Returns this share, or the nearest that the user's quota allows.
  gang::Share Lowered(const std::string& user, gang::Share share) const;
  // Returns PERMISSION_DENIED if the share is above the user's quota.
  absl::Status CheckShare(const std::string& user, const gang::Share& share) const;

  void CountDeviceSeconds(const std::string& user, double seconds);
  // Returns RESOURCE_EXHAUSTED if the user's quota of today is used up.
  absl::Status Spent(const std::string& user);

  int64_t sessions(const std::string& user) const;
  double device_seconds(const std::string& user);  // today
  std::vector<Queued> queue() const;
  std::set<std::string> users() const;  // that have sessions, or have computed today

 private:
  struct Waiting {
    Request request;
    std::string told;
  };
  void BeginDay();
  std::string Why(const std::string& user, int position) const;

  const Environment environment_;
  std::map<SessionId, std::string> user_of_;
  std::map<std::string, int64_t> open_;  // sessions of each user; without zeros
  std::deque<Waiting> waiting_;
  int64_t day_ = 0;                     // since 1970, UTC
  std::map<std::string, double> used_;  // device seconds of that day
};

}  // namespace pw::controller
