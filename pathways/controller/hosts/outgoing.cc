#include "pathways/controller/hosts/outgoing.h"

#include <algorithm>
#include <map>

namespace pw::controller {

void Outgoing::Add(SessionId session, HostId host, uint64_t transfer, int64_t bytes) {
  auto [it, is_new] = transfers_.try_emplace(transfer, Transfer{session, bytes, {}});
  it->second.hosts.push_back(host);
  if (is_new) sessions_[session].bytes += bytes;
}

void Outgoing::Done(HostId host, uint64_t transfer) {
  auto it = transfers_.find(transfer);
  if (it == transfers_.end()) return;
  std::vector<HostId>& hosts = it->second.hosts;
  hosts.erase(std::remove(hosts.begin(), hosts.end(), host), hosts.end());
  if (!hosts.empty()) return;
  std::vector<Transfer> gone = {std::move(it->second)};
  transfers_.erase(it);
  Drained(gone);
}

void Outgoing::RemoveHost(HostId host) {
  std::vector<Transfer> gone;
  absl::erase_if(transfers_, [&](auto& entry) {
    std::vector<HostId>& hosts = entry.second.hosts;
    hosts.erase(std::remove(hosts.begin(), hosts.end(), host), hosts.end());
    if (!hosts.empty()) return false;
    gone.push_back(std::move(entry.second));
    return true;
  });
  Drained(gone);
}

void Outgoing::RemoveSession(SessionId session) {
  absl::erase_if(transfers_, [&](const auto& entry) { return entry.second.session == session; });
  sessions_.erase(session);
}

int64_t Outgoing::bytes(SessionId session) const {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? 0 : it->second.bytes;
}

void Outgoing::Drained(const std::vector<Transfer>& gone) {
  std::map<SessionId, std::function<void()>> drained;  // in a fixed order; copies, because a callback may end a session
  for (const Transfer& transfer : gone) {
    auto it = sessions_.find(transfer.session);
    if (it == sessions_.end()) continue;
    it->second.bytes -= transfer.bytes;
    drained[transfer.session] = it->second.drained;
  }
  for (const auto& [session, call] : drained) {
    if (call != nullptr) call();
  }
}

}  // namespace pw::controller
