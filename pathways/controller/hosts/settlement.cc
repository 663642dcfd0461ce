#include "pathways/controller/hosts/settlement.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "pathways/base/request_name.h"

namespace pw::controller {
namespace {

// Returns the name if a request has given it.
std::optional<RequestName> OfRequest(uint64_t number) {
  const std::optional<RequestName> name = RequestName::Read(number);
  return name.has_value() && !name->own ? name : std::nullopt;
}

}  // namespace

void Settlement::Open(SessionId session, std::shared_ptr<UnsettledRequests> requests) {
  requests->OnSettled([this, session] { TellHostsOf(session); });
  sessions_[session].requests = std::move(requests);
}

void Settlement::End(SessionId session) { sessions_.erase(session); }

void Settlement::RemoveHost(HostId host) {
  due_.erase(host);
  for (auto& [id, session] : sessions_) session.not_told.erase(host);
}

void Settlement::Hold(uint64_t number) {
  const std::optional<RequestName> name = OfRequest(number);
  const auto session = name.has_value() ? sessions_.find(name->session) : sessions_.end();
  if (session != sessions_.end()) session->second.requests->Hold(name->request);
}

void Settlement::Release(HostId host, uint64_t number) {
  const std::optional<RequestName> name = OfRequest(number);
  const auto found = name.has_value() ? sessions_.find(name->session) : sessions_.end();
  if (found == sessions_.end()) return;
  Session& session = found->second;
  session.requests->Release(name->request);
  uint64_t& latest = session.not_told[host];
  latest = std::max(latest, name->request);
  TellHostsOf(name->session);
}

void Settlement::TellHostsOf(SessionId id) {
  const auto session = sessions_.find(id);
  if (session != sessions_.end() && session->second.requests->settled() - session->second.told >= kStep)
    TellHosts(id, session->second);
}

// A host leaves the list when all requests of which it had commands are settled: it will be told of them.
void Settlement::TellHosts(SessionId id, Session& session) {
  session.told = session.requests->settled();
  const uint64_t settled = session.requests->settled_up_to();
  for (const auto& [host, latest] : session.not_told) due_[host].insert(id);
  absl::erase_if(session.not_told, [settled](const auto& entry) { return entry.second <= settled; });
}

void Settlement::Tell(HostId host, ::pathways::v1::ToWorker* frame) {
  const auto due = due_.find(host);
  if (due == due_.end()) return;
  for (SessionId id : due->second) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) continue;  // it has ended, and hosts forget its names with all else
    const UnsettledRequests& requests = *session->second.requests;
    auto& settled = *frame->add_settled();
    settled.set_session(id.v);
    settled.set_up_to(requests.settled_up_to());
    const std::vector<uint64_t> others = requests.SettledAfter(kMostRanges);
    settled.mutable_others()->Add(others.begin(), others.end());
  }
  due_.erase(due);
}

}  // namespace pw::controller
