// Settlement: tells hosts which requests of sessions are settled, so that they need not keep the names of commands any longer
// (worker.proto, Settled). Commands that are under way hold their requests (names/unsettled_requests.h).
//
// The settled requests cost no frame: they ride on frames for the host that go anyhow. They cost few bytes: hosts are told when kStep more
// requests of a session are settled. So a host keeps the names of unsettled requests, of kStep more, and of those that were settled since
// the last frame went to it; and of some kStep that are done, if the client has to be told first (names/unsettled_requests.h).
//
// Invariants:
//   TE-1  a host is told only of requests that are settled
//   TE-2  a host on which a command of a settled request has ended is told of it, if enough later ones are settled and frames go to it
// Pure. Strand-confined. Fabric owns it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/ids.h"
#include "pathways/controller/names/unsettled_requests.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Settlement {
 public:
  static constexpr uint64_t kStep = 64;
  // Requests that stay unsettled for long leave gaps; a host is told of the latest ranges between them. It has been told of the others before.
  static constexpr size_t kMostRanges = 64;

  void Open(SessionId session, std::shared_ptr<UnsettledRequests> requests);
  void End(SessionId session);
  bool Has(SessionId session) const { return sessions_.contains(session); }
  void RemoveHost(HostId host);

  // Hold: a command to a host is under way. Release: it has ended. `name`: its op, or the name of what it fetches. Names that no request has
  // given change nothing.
  void Hold(uint64_t name);
  void Release(HostId host, uint64_t name);
  // Adds what the host has to be told to a frame that goes to it.
  void Tell(HostId host, ::pathways::v1::ToWorker* frame);

 private:
  struct Session {
    std::shared_ptr<UnsettledRequests> requests;
    uint64_t told = 0;                                    // how many requests were settled when hosts were to be told last
    absl::flat_hash_map<HostId, uint64_t> not_told = {};  // hosts, with the latest request of which a command has ended there
  };
  void TellHostsOf(SessionId id);  // if enough more requests are settled
  void TellHosts(SessionId id, Session& session);

  absl::flat_hash_map<SessionId, Session> sessions_;
  std::map<HostId, std::set<SessionId>> due_;  // sessions of which the next frame tells
};

}  // namespace pw::controller
