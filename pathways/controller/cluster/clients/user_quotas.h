// UserQuotas: applies the limits of users (identity/quotas.h) to their sessions. ClientSessions owns it.
//
// Sessions. A user who has as many sessions as the quota allows waits for one of them to end. Those who wait are in one queue, the
// first come first, and each is told its position among its user's and the reason. A user at its limit delays no other user.
//
// Device time. Device seconds count for the day (UTC) in which the controller notices them, also those of a session that has ended
// meanwhile. A user who has used up a day's quota may go on reading arrays, but computes no more until the day ends (Spent).
//
// Devices. A user has the devices of the slices of its sessions, as many as they asked for, and each device that its sessions use
// without a slice: from the first array or program there until the session ends. A slice beyond the quota waits (RoomFor); other uses
// of one device more are refused (UseDevices).
//
// Hosts apply the limits of memory and of processes (worker/store/accounts.h).
//
// Sessions of operators, and of processes of the controller's own user, have no limits: they are not passed to this class.
//
// Invariants:
//   UQ-1  Ask and Recheck open a session only while its user has fewer than its quota
//   UQ-2  a session that waits is opened at most once, and never after its client has gone
//   UQ-3  UseDevices and RoomFor let nothing begin that gives a user more devices than its quota
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
#include "pathways/resource/slice_table.h"

namespace pw::controller {

class UserQuotas {
 public:
  struct Environment {
    std::function<identity::Quota(const std::string& user)> quota_of;
    std::function<absl::Time()> wall_clock;
    std::function<int64_t(SessionId)> slice_devices;  // the devices of the session's slices
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

  // Ignores sessions that were not passed to OnOpened, and those that ended before the last kRemembered ones.
  void CountDeviceSeconds(SessionId session, double seconds);
  // Returns RESOURCE_EXHAUSTED if the user's quota of today is used up.
  absl::Status Spent(const std::string& user);

  // Notes that the session uses these physical devices without a slice. RESOURCE_EXHAUSTED: that would be more than the quota, and
  // nothing is noted. Ignores other sessions than those of OnOpened.
  absl::Status UseDevices(SessionId session, const std::vector<DeviceId>& devices);
  // Says whether the session may have a slice of so many devices.
  resource::QuotaRoom RoomFor(SessionId session, int64_t devices) const;

  int64_t sessions(const std::string& user) const;
  double device_seconds(const std::string& user);  // today
  int64_t devices(const std::string& user) const;
  std::vector<Queued> queue() const;
  std::set<std::string> users() const;  // that have sessions, or have computed today

  static constexpr size_t kRemembered = 4096;  // sessions that have ended

 private:
  struct Waiting {
    Request request;
    std::string told = {};
    int position = 0;  // among its user's
  };
  struct Open {
    std::string user;
    std::set<DeviceId> devices;  // physical ones that it uses without a slice
  };
  void BeginDay();
  std::string Why(const std::string& user, int position) const;
  // Returns the number of devices that the user has, with these.
  int64_t DevicesWith(const std::string& user, const std::vector<DeviceId>& more) const;

  const Environment environment_;
  std::map<SessionId, Open> sessions_;      // open ones
  std::map<std::string, int64_t> open_;     // their number for each user; without zeros
  std::map<SessionId, std::string> ended_;  // the users of the last sessions that have ended
  std::deque<SessionId> ended_in_order_;    // the oldest first
  std::deque<Waiting> waiting_;
  int64_t day_ = 0;                     // since 1970, UTC
  std::map<std::string, double> used_;  // device seconds of that day
};

}  // namespace pw::controller
