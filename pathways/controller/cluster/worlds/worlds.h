// Worlds: the worlds of device runtimes (world.proto), one for each island whose hosts ask for one: who belongs to it, and its store.
//
// Forming. Hosts wait by island until there are as many as each of them says. Then they are numbered in the order of their names.
//
// Losing. A host whose connection ends is away for as long as the cluster keeps a host without a connection (session/absence.h), and comes
// back under the world's name. Else it is lost, and so is the world: its store answers no more waits. The other hosts are left alone
// until a host of the island waits; then they are told that the world is over, and start anew.
//
// Invariants:
//   RW-1  an island has at most one world, and a host is at most once in it or among those that wait
//   RW-2  a world's name is never used again, so no host gets a value of another world
//   RW-3  a request is answered at most once, on the connection on which it came; requests of a connection that has ended are dropped
//   RW-4  a world is kept while one of its hosts has a connection or may come back
//   RW-5  a world has one timer at most, however many wait in it
// Strand-confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/controller/cluster/links/peer_links.h"
#include "pathways/controller/cluster/worlds/key_value_store.h"
#include "pathways/v1/world.pb.h"

namespace pw::controller {

class Worlds {
 public:
  static constexpr uint32_t kMostHosts = 65536;
  static constexpr size_t kMostNameBytes = 1024;
  static constexpr absl::Duration kLatest = absl::Milliseconds(100);  // from a wait's deadline to its end, at most

  // `links` outlives this.
  Worlds(ClusterContext context, PeerLinks* links) : context_(std::move(context)), links_(links) {}

  void OnMessage(LinkId link, const ::pathways::v1::FromRuntime& message);
  // The connection has ended.
  void OnLeft(LinkId link, const absl::Status& reason);
  // The cluster has lost a host: it is lost to its world too, if it has no connection there.
  void OnHostLost(const std::string& island, const std::string& host_name, const absl::Status& reason);
  // Forgets all worlds, and the hosts that wait: their links have ended.
  void Clear();

 private:
  struct Node {
    std::string host_name;
    std::string own_end;    // of its connection
    LinkId link = 0;        // 0: it is away, or lost
    uint64_t absences = 0;  // how often it was away
    bool lost = false;
  };
  struct World {
    std::string name;
    std::vector<Node> nodes;
    KeyValueStore store;
    bool broken = false;  // a node is lost
    bool timed = false;   // ExpireWaits will be called
  };
  struct Place {
    std::string island;
    size_t node;
  };
  using Waiting = std::map<LinkId, ::pathways::v1::JoinWorld>;

  void OnJoin(LinkId link, const ::pathways::v1::JoinWorld& join);
  // Returns an error if the host cannot wait beside the others of its island.
  absl::Status CheckWaiting(const Waiting& waiting, const ::pathways::v1::JoinWorld& join) const;
  void OnReturn(LinkId link, const ::pathways::v1::JoinWorld& join);
  void OnPut(LinkId link, const ::pathways::v1::PutValue& put);
  void OnGet(LinkId link, const ::pathways::v1::GetValue& get);
  // Ends the waits of the world that are over, and sees to it that the others' time is noticed.
  void ExpireWaits(const std::string& island, const std::string& world);

  // Ends the island's world if it is broken and a host waits, and forms the next one if all are there.
  void Settle(const std::string& island);
  void Form(const std::string& island);
  void EndWorld(const std::string& island);
  void Lose(const std::string& island, size_t node, const std::string& why);
  // Drops the world if none of its hosts is there or may come back (RW-4).
  void DropIfDeserted(const std::string& island);

  // Returns null if the link is in no world.
  World* WorldOf(LinkId link);
  void TellFormed(LinkId link, const World& world, size_t node);
  void TellOver(LinkId link, const std::string& reason);
  void Answer(LinkId link, uint64_t request, const absl::StatusOr<Bytes>& value);
  void Send(LinkId link, const ::pathways::v1::ToRuntime& message);

  const ClusterContext context_;
  PeerLinks* const links_;
  std::map<std::string, Waiting> waiting_;                // by island
  std::map<std::string, std::unique_ptr<World>> worlds_;  // by island
  std::map<LinkId, Place> places_;                        // of the hosts that have a connection
};

}  // namespace pw::controller
