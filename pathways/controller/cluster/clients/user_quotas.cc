#include "pathways/controller/cluster/clients/user_quotas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pw::controller {
namespace {

int64_t DayOf(absl::Time time) { return absl::ToUnixSeconds(time) / (24 * 3600); }

}  // namespace

UserQuotas::UserQuotas(Environment environment, const std::map<std::string, double>& used)
    : environment_(std::move(environment)), day_(DayOf(environment_.wall_clock())), used_(used) {}

void UserQuotas::Ask(Request request) {
  waiting_.push_back({std::move(request), ""});
  Recheck();
}

void UserQuotas::OnOpened(SessionId session, const std::string& user) {
  user_of_[session] = user;
  ++open_[user];
}

void UserQuotas::OnEnded(SessionId session) {
  const auto ended = user_of_.extract(session);
  if (ended.empty()) return;
  const auto open = open_.find(ended.mapped());
  if (--open->second == 0) open_.erase(open);
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
    std::string why = Why(user, ++ahead[user]);
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

void UserQuotas::CountDeviceSeconds(const std::string& user, double seconds) {
  BeginDay();
  used_[user] += seconds;
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
  std::map<std::string, int> ahead;
  for (const Waiting& one : waiting_) {
    const std::string& user = one.request.user;
    queue.push_back({user, one.request.description, Why(user, ++ahead[user]), ahead[user]});
  }
  return queue;
}

}  // namespace pw::controller
