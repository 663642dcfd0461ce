#include "pathways/worker/store/host_quota.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pathways/worker/store/memory_ledger.h"

namespace pw::worker {

void HostQuota::AddTo(BySession* way, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  const auto it = way->try_emplace(session).first;
  it->second += bytes;
  if (it->second == 0) way->erase(it);
}

HostQuota::Charge HostQuota::Take(Way way, SessionId session, int64_t bytes) {
  if (bytes == 0) return nullptr;
  Add(way, session, bytes);
  // The address only has to differ from null.
  return {this, [ways = ways_, way, session, bytes](const void*) {
            AddTo(&(*ways)[static_cast<size_t>(way)], session, -bytes);
          }};
}

int64_t HostQuota::Sum(const BySession& way, const std::set<SessionId>& sessions) {
  int64_t sum = 0;
  for (SessionId session : sessions) {
    const auto it = way.find(session);
    if (it != way.end()) sum += it->second;
  }
  return sum;
}

bool HostQuota::Limits(SessionId session) const {
  const Account* account = accounts_->Of(session);
  return account != nullptr && account->host_bytes.has_value();
}

bool HostQuota::HasRoom(Way way, SessionId session, int64_t bytes) const {
  if (!Limits(session)) return true;
  const Account* account = accounts_->Of(session);
  return bytes <= *account->host_bytes - Sum(Of(way), account->sessions);
}

absl::Status HostQuota::Check(SessionId session, int64_t bytes) const {
  if (!Limits(session)) return absl::OkStatus();
  const Account* account = accounts_->Of(session);
  if (bytes <= *account->host_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("an array of ", HumanBytes(bytes), " on one host does not fit into the ", HumanBytes(*account->host_bytes),
                   " of host memory that arrays of user '", account->user,
                   "' may take on their way: send or read less at a time, or ask an operator for more ('pathways quota set "
                   "--host-memory')"));
}

std::string HostQuota::Why(Way way, SessionId session, int64_t bytes) const {
  const Account* account = accounts_->Of(session);
  if (account == nullptr || !account->host_bytes.has_value()) return "";
  return absl::StrCat("an array ", way == Way::kIn ? "from" : "for", " the client needs ", HumanBytes(bytes),
                      " of host memory, and user '", account->user, "' has ", HumanBytes(Sum(Of(way), account->sessions)), " of ",
                      HumanBytes(*account->host_bytes), ": it waits until others have arrived");
}

int64_t HostQuota::HeldBy(const std::set<SessionId>& sessions) const {
  return std::max(Sum(Of(Way::kIn), sessions), Sum(Of(Way::kOut), sessions));
}

bool HostQuota::Holds(SessionId session) const {
  return std::any_of(ways_->begin(), ways_->end(), [session](const BySession& way) { return way.contains(session); });
}

int64_t HostQuota::charged_bytes() const {
  int64_t sum = 0;
  for (const BySession& way : *ways_) {
    for (const auto& [session, bytes] : way) sum += bytes;
  }
  return sum;
}

}  // namespace pw::worker
