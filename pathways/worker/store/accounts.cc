#include "pathways/worker/store/accounts.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::worker {

void Accounts::Set(const pathways::v1::HostConfig& config, absl::FunctionRef<bool(SessionId)> holds,
                   absl::FunctionRef<bool(SessionId)> ended) {
  std::map<std::string, Account> before = std::exchange(accounts_, {});
  of_.clear();
  for (const auto& told : config.accounts()) {
    Account& account = accounts_[told.user()];
    account.user = told.user();
    if (told.has_device_bytes()) account.device_bytes = told.device_bytes();
    if (told.has_host_bytes()) account.host_bytes = told.host_bytes();
    if (told.has_python_processes()) account.python_processes = told.python_processes();
    for (uint64_t session : told.sessions()) {
      if (of_.emplace(SessionId(session), &account).second) account.sessions.insert(SessionId(session));
    }
  }
  for (auto& [user, old] : before) {
    const std::set<SessionId> sessions = std::exchange(old.sessions, {});
    const bool has_limits = accounts_.contains(user);
    for (SessionId session : sessions) {
      if (of_.contains(session) || !holds(session)) continue;
      if (!has_limits && !ended(session)) continue;  // the user has no limits any more
      Account& account = accounts_.try_emplace(user, old).first->second;
      account.sessions.insert(session);
      of_[session] = &account;
    }
  }
}

const Account* Accounts::Of(SessionId session) const {
  if (of_.empty()) return nullptr;
  const auto found = of_.find(session);
  return found == of_.end() ? nullptr : found->second;
}

std::string Accounts::OwnerOf(SessionId session) const {
  const Account* account = Of(session);
  return account != nullptr ? account->user : absl::StrCat("session ", session.v);  // no user's name has a blank
}

}  // namespace pw::worker
