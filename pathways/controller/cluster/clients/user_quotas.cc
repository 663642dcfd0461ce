#include "pathways/controller/cluster/clients/user_quotas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pathways/buffers/array_spec.h"

namespace pw::controller {
namespace {

int64_t DayOf(absl::Time time) { return absl::ToUnixSeconds(time) / (24 * 3600); }

}  // namespace

UserQuotas::UserQuotas(Environment environment, const std::map<std::string, double>& used)
    : environment_(std::move(environment)), day_(DayOf(environment_.wall_clock())), used_(used) {}

void UserQuotas::Ask(Request request) {
  waiting_.push_back(Waiting{std::move(request)});
  Recheck();
}

void UserQuotas::OnOpened(SessionId session, const std::string& user) {
  sessions_[session] = {user, {}};
  ++open_[user];
}

void UserQuotas::OnEnded(SessionId session) {
  auto ended = sessions_.extract(session);
  if (ended.empty()) return;
  const auto open = open_.find(ended.mapped().user);
  if (--open->second == 0) open_.erase(open);
  ended_[session] = std::move(ended.mapped().user);
  ended_in_order_.push_back(session);
  if (ended_in_order_.size() <= kRemembered) return;
  ended_.erase(ended_in_order_.front());
  ended_in_order_.pop_front();
}

void UserQuotas::Recheck() {
  std::deque<Waiting> waiting = std::exchange(waiting_, {});
  std::map<std::string, int> ahead;
  for (Waiting& one : waiting) {
    if (one.request.client.has_value() && one.request.client->expired()) continue;
    const std::string user = one.request.user;
    const std::optional<int64_t> most = environment_.quota_of(user).sessions;
    if (ahead[user] == 0 && (!most.has_value() || sessions(user) < *most)) {
      std::move(one.request.open)();
      continue;
    }
    one.position = ++ahead[user];
    std::string why = Why(user, one.position);
    if (why != one.told && one.request.tell != nullptr) one.request.tell(why);
    one.told = std::move(why);
    waiting_.push_back(std::move(one));
  }
}

std::string UserQuotas::Why(const std::string& user, int position) const {
  return absl::StrCat("user '", user, "' has ", sessions(user), " sessions, and the quota is ",
                      environment_.quota_of(user).sessions.value_or(0), ": waiting for one of them to end, at position ",
                      position, " in the queue");
}

gang::Share UserQuotas::Lowered(const std::string& user, gang::Share share) const {
  const identity::Quota quota = environment_.quota_of(user);
  if (quota.weight.has_value()) share.weight = std::min(share.weight, *quota.weight);
  if (quota.priority.has_value()) share.priority = std::min(share.priority, *quota.priority);
  return share;
}

absl::Status UserQuotas::CheckShare(const std::string& user, const gang::Share& share) const {
  const gang::Share most = Lowered(user, share);
  if (most == share) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("a weight of ", share.weight, " and a priority of ", share.priority,
                                                  " is more than user '", user, "' may have: at most ", most.weight, " and ",
                                                  most.priority, "; an operator can change that ('pathways quota set')"));
}

void UserQuotas::BeginDay() {
  if (const int64_t today = DayOf(environment_.wall_clock()); today > std::exchange(day_, std::max(day_, today))) used_.clear();
}

void UserQuotas::CountDeviceSeconds(SessionId session, double seconds) {
  BeginDay();
  if (const auto open = sessions_.find(session); open != sessions_.end()) {
    used_[open->second.user] += seconds;
  } else if (const auto ended = ended_.find(session); ended != ended_.end()) {
    used_[ended->second] += seconds;
  }
}

absl::Status UserQuotas::Spent(const std::string& user) {
  const std::optional<double> most = environment_.quota_of(user).device_seconds;
  if (!most.has_value() || device_seconds(user) < *most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("user '%s' has used %.1f device seconds today, and the quota is %.1f: the cluster computes nothing more "
                      "for this user until "
                      "00:00 UTC. 'pathways usage' shows the use; an operator can change the quota ('pathways quota set')",
                      user, device_seconds(user), *most));
}

int64_t UserQuotas::DevicesWith(const std::string& user, const std::vector<DeviceId>& more) const {
  std::set<DeviceId> used(more.begin(), more.end());
  int64_t of_slices = 0;
  for (const auto& [session, open] : sessions_) {
    if (open.user != user) continue;
    used.insert(open.devices.begin(), open.devices.end());
    of_slices += environment_.slice_devices(session);
  }
  return of_slices + static_cast<int64_t>(used.size());
}

int64_t UserQuotas::devices(const std::string& user) const { return DevicesWith(user, {}); }

absl::Status UserQuotas::UseDevices(SessionId session, const std::vector<DeviceId>& devices) {
  const auto open = sessions_.find(session);
  if (open == sessions_.end()) return absl::OkStatus();
  const std::string& user = open->second.user;
  const std::optional<int64_t> most = environment_.quota_of(user).devices;
  const int64_t then = DevicesWith(user, devices), now = this->devices(user);
  if (most.has_value() && then > now && then > *most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("user '", user, "' has ", now, " devices in use and would have ", then, " with device ",
                     buffers::DeviceNumbers(devices),
                     "; the quota is ", *most,
                     ". A device is in use until the sessions that have arrays or programs there end, and those of a slice until it is "
                     "released. Use fewer devices, or ask an operator for more ('pathways quota set --devices')"));
  }
  open->second.devices.insert(devices.begin(), devices.end());
  return absl::OkStatus();
}

resource::QuotaRoom UserQuotas::RoomFor(SessionId session, int64_t devices) const {
  using What = resource::QuotaRoom::What;
  const auto open = sessions_.find(session);
  if (open == sessions_.end()) return {};
  const std::string& user = open->second.user;
  const std::optional<int64_t> most = environment_.quota_of(user).devices;
  if (!most.has_value()) return {};
  const int64_t now = this->devices(user);
  if (devices <= *most - now) return {};
  if (devices > *most) {
    return {What::kNever, absl::StrCat("user '", user, "' may have ", *most, " devices at a time, and this slice has ", devices,
                                       "; an operator can change that ('pathways quota set --devices')")};
  }
  return {What::kLater, absl::StrCat(devices, devices == 1 ? " device" : " devices", " of the ", *most, " that user '", user,
                                     "' may have at a time, of which ", now, " are in use")};
}

int64_t UserQuotas::sessions(const std::string& user) const {
  const auto open = open_.find(user);
  return open == open_.end() ? 0 : open->second;
}

double UserQuotas::device_seconds(const std::string& user) {
  BeginDay();
  const auto used = used_.find(user);
  return used == used_.end() ? 0 : used->second;
}

std::set<std::string> UserQuotas::users() const {
  std::set<std::string> users;
  for (const auto& [user, count] : open_) users.insert(user);
  for (const auto& [user, seconds] : used_) users.insert(user);
  return users;
}

std::vector<UserQuotas::Queued> UserQuotas::queue() const {
  std::vector<Queued> queue;
  for (const Waiting& one : waiting_) queue.push_back({one.request.user, one.request.description, one.told, one.position});
  return queue;
}

}  // namespace pw::controller
