#include "pathways/controller/cluster/worlds/worlds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/absence.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::FromRuntime;
using ::pathways::v1::GetValue;
using ::pathways::v1::JoinWorld;
using ::pathways::v1::PutValue;
using ::pathways::v1::ToRuntime;

namespace {

constexpr absl::Duration kLongestWait = absl::Hours(24);
constexpr size_t kNameBytes = 8;

std::string HostOf(const std::string& host_name, const std::string& island) {
  return absl::StrCat("host '", host_name, "' of island '", island, "'");
}

absl::Status CheckJoin(const JoinWorld& join) {
  if (join.hosts() < 1 || join.hosts() > Worlds::kMostHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat("an island has 1 to ", Worlds::kMostHosts, " hosts, not ", join.hosts(), " (--island-hosts)"));
  }
  for (const std::string* name : {&join.island(), &join.host_name(), &join.own_end(), &join.run()}) {
    if (name->size() > Worlds::kMostNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a name of a host or its island has more than ", Worlds::kMostNameBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Worlds::OnMessage(LinkId link, const FromRuntime& message) {
  if (message.has_join()) return OnJoin(link, message.join());
  if (message.has_put()) return OnPut(link, message.put());
  OnGet(link, message.get());
}

void Worlds::OnJoin(LinkId link, const JoinWorld& join) {
  if (absl::Status status = CheckJoin(join); !status.ok()) return links_->Refuse(link, status);
  if (!join.world().empty()) return OnReturn(link, join);
  Waiting& waiting = waiting_[join.island()];
  if (absl::Status status = CheckWaiting(waiting, join); !status.ok()) return links_->Refuse(link, status);
  std::erase_if(waiting, [&](const auto& other) {
    if (other.second.host_name() != join.host_name()) return false;
    links_->Close(other.first, absl::AbortedError("this host has another connection for its world"));
    return true;
  });
  waiting[link] = join;
  waiting[link].clear_token();
  PW_LOG_INFO << HostOf(join.host_name(), join.island()) << " waits for the world of its island (" << waiting.size() << " of "
              << join.hosts() << " hosts)";
  if (const auto world = worlds_.find(join.island()); world != worlds_.end()) {
    const std::vector<Node>& nodes = world->second->nodes;
    const auto before = std::ranges::find(nodes, join.host_name(), &Node::host_name);
    if (before != nodes.end() && before->link == 0 && !before->lost)
      return Lose(join.island(), before - nodes.begin(), "another worker has come in its place");
  }
  Settle(join.island());
}

absl::Status Worlds::CheckWaiting(const Waiting& waiting, const JoinWorld& join) const {
  for (const auto& [link, other] : waiting) {
    if (other.host_name() != join.host_name() || other.run() == join.run()) continue;
    return absl::FailedPreconditionError(absl::StrCat("another worker waits as ", HostOf(join.host_name(), join.island()),
                                                      ": give each of them a name of its own (pathways worker --host)"));
  }
  if (waiting.empty()) return absl::OkStatus();
  const JoinWorld& other = waiting.begin()->second;
  if (other.hosts() == join.hosts()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("island '", join.island(), "' has ", other.hosts(), " hosts, as host '",
                                                    other.host_name(), "' says, and not ", join.hosts(),
                                                    ": give all its workers the same --island-hosts"));
}

void Worlds::OnReturn(LinkId link, const JoinWorld& join) {
  const auto found = worlds_.find(join.island());
  World* const world = found == worlds_.end() ? nullptr : found->second.get();
  const size_t number = join.node();
  if (world == nullptr || world->name != join.world() || number >= world->nodes.size() || world->nodes[number].lost ||
      world->nodes[number].host_name != join.host_name()) {
    return TellOver(
        link, absl::StrCat("the controller does not keep the world of ", HostOf(join.host_name(), join.island()), " any more"));
  }
  Node& node = world->nodes[number];
  if (const LinkId before = std::exchange(node.link, link); before != 0) {
    places_.erase(before);
    world->store.Forget(before);
    links_->Close(before, absl::AbortedError("this host has another connection for its world"));
  }
  node.own_end = join.own_end();
  places_[link] = {join.island(), number};
  TellFormed(link, *world, number);
}

void Worlds::OnPut(LinkId link, const PutValue& put) {
  World* const world = WorldOf(link);
  if (world == nullptr) return Answer(link, put.request(), absl::FailedPreconditionError("this host is in no world"));
  const absl::Status status = world->store.Put(put.key(), put.value());
  Answer(link, put.request(), status.ok() ? absl::StatusOr<Bytes>(Bytes()) : status);
}

void Worlds::OnGet(LinkId link, const GetValue& get) {
  World* const world = WorldOf(link);
  if (world == nullptr) return Answer(link, get.request(), absl::FailedPreconditionError("this host is in no world"));
  if (!get.has_wait_milliseconds()) return Answer(link, get.request(), world->store.TryGet(get.key()));
  const absl::Duration wait = std::clamp(absl::Milliseconds(get.wait_milliseconds()), absl::ZeroDuration(), kLongestWait);
  const Place& place = places_.at(link);
  std::string who = HostOf(world->nodes[place.node].host_name, place.island);
  const auto done = [this, link, request = get.request(), who = std::move(who)](const absl::StatusOr<Bytes>& value) {
    if (value.ok()) return Answer(link, request, value);
    const absl::Status& error = value.status();
    Answer(link, request, absl::Status(error.code(), absl::StrCat(who, " waits in vain: ", error.message())));
  };
  world->store.Get(link, get.key(), context_.Now() + wait, done);
  world->store.Expire(context_.Now());  // ends a wait of no time at once
  if (!world->timed) ExpireWaits(place.island, world->name);
}

void Worlds::ExpireWaits(const std::string& island, const std::string& name) {
  const auto found = worlds_.find(island);
  if (found == worlds_.end() || found->second->name != name) return;
  World& world = *found->second;
  world.store.Expire(context_.Now());
  world.timed = world.store.waits() > 0;
  if (!world.timed) return;
  // A timer cannot be replaced by an earlier one, so it is short: a wait that begins meanwhile may have an earlier deadline.
  context_.After(std::min(world.store.next_deadline() - context_.Now(), kLatest),
                 [this, island, name] { ExpireWaits(island, name); });
}

void Worlds::OnLeft(LinkId link, const absl::Status& reason) {
  for (auto& [island, waiting] : waiting_) {
    if (const auto left = waiting.extract(link); !left.empty()) {
      PW_LOG_WARNING << HostOf(left.mapped().host_name(), island) << " left before its world formed: " << reason.message();
    }
  }
  std::erase_if(waiting_, [](const auto& one) { return one.second.empty(); });
  const auto left = places_.extract(link);
  if (left.empty()) return;
  const auto& [island, number] = left.mapped();
  World& world = *worlds_.at(island);
  Node& node = world.nodes[number];
  world.store.Forget(link);
  node.link = 0;
  const net::Connection& connection = *links_->connection(link);
  const absl::Duration kept =
      session::KeptAfter({connection.breakable(), node.own_end, connection.peer(), reason}, context_.options().host_grace);
  if (kept <= absl::ZeroDuration()) return Lose(island, number, std::string(reason.message()));
  context_.After(kept, [this, island = island, number = number, name = world.name, absence = ++node.absences, reason] {
    const auto found = worlds_.find(island);
    if (found == worlds_.end() || found->second->name != name) return;
    const Node& away = found->second->nodes[number];
    if (away.link == 0 && !away.lost && away.absences == absence) Lose(island, number, std::string(reason.message()));
  });
}

void Worlds::OnHostLost(const std::string& island, const std::string& host_name, const absl::Status& reason) {
  const auto found = worlds_.find(island);
  if (found == worlds_.end()) return;
  const std::vector<Node>& nodes = found->second->nodes;
  const auto node = std::ranges::find(nodes, host_name, &Node::host_name);
  if (node == nodes.end() || node->link != 0 || node->lost) return;
  Lose(island, node - nodes.begin(), std::string(reason.message()));
}

void Worlds::Clear() {
  waiting_.clear();
  worlds_.clear();
  places_.clear();
}

void Worlds::Lose(const std::string& island_of, size_t number, const std::string& why) {
  const std::string island = island_of;  // the caller's may end with the world
  World& world = *worlds_.at(island);
  Node& node = world.nodes[number];
  node.lost = true;
  world.broken = true;
  const std::string loss = absl::StrCat(HostOf(node.host_name, island), " is lost: ", why);
  PW_LOG_WARNING << "the world of island '" << island << "' is broken: " << loss;
  world.store.End(absl::UnavailableError(loss));
  DropIfDeserted(island);
  Settle(island);
}

void Worlds::DropIfDeserted(const std::string& island) {
  const std::vector<Node>& nodes = worlds_.at(island)->nodes;
  if (std::ranges::all_of(nodes, [](const Node& node) { return node.lost; })) worlds_.erase(island);
}

void Worlds::Settle(const std::string& island) {
  const auto waiting = waiting_.find(island);
  if (waiting == waiting_.end()) return;
  const auto world = worlds_.find(island);
  if (world != worlds_.end() && !world->second->broken) return;
  if (world != worlds_.end()) EndWorld(island);
  if (waiting->second.size() >= waiting->second.begin()->second.hosts()) Form(island);
}

void Worlds::EndWorld(const std::string& island) {
  const std::unique_ptr<World> world = std::move(worlds_.extract(island).mapped());
  for (const Node& node : world->nodes) {
    if (node.link == 0) continue;
    places_.erase(node.link);
    TellOver(node.link, absl::StrCat("the world of island '", island, "' has lost a host, and another one has come"));
  }
}

void Worlds::Form(const std::string& island) {
  Waiting& waiting = waiting_.at(island);
  const size_t hosts = waiting.begin()->second.hosts();
  std::vector<std::pair<std::string, LinkId>> chosen;  // the first that have come
  for (auto it = waiting.begin(); chosen.size() < hosts; ++it) chosen.emplace_back(it->second.host_name(), it->first);
  std::ranges::sort(chosen);
  auto world = std::make_unique<World>();
  world->name = absl::BytesToHexString(context_.options().make_key()).substr(0, 2 * kNameBytes);
  for (const auto& [host_name, link] : chosen) {
    places_[link] = {island, world->nodes.size()};
    world->nodes.push_back({.host_name = host_name, .own_end = waiting.at(link).own_end(), .link = link});
    waiting.erase(link);
  }
  if (waiting.empty()) waiting_.erase(island);
  for (size_t i = 0; i < chosen.size(); ++i) TellFormed(chosen[i].second, *world, i);
  PW_LOG_INFO << "the world of island '" << island << "' has formed: " << hosts << " hosts (" << world->name << ")";
  worlds_[island] = std::move(world);
}

Worlds::World* Worlds::WorldOf(LinkId link) {
  const auto place = places_.find(link);
  return place == places_.end() ? nullptr : worlds_.at(place->second.island).get();
}

void Worlds::TellFormed(LinkId link, const World& world, size_t node) {
  ToRuntime message;
  message.mutable_formed()->set_world(world.name);
  message.mutable_formed()->set_node(static_cast<uint32_t>(node));
  message.mutable_formed()->set_nodes(static_cast<uint32_t>(world.nodes.size()));
  message.mutable_formed()->set_silence_seconds(absl::ToDoubleSeconds(context_.options().heartbeat_limit));
  Send(link, message);
}

void Worlds::TellOver(LinkId link, const std::string& reason) {
  ToRuntime message;
  message.mutable_over()->set_reason(reason);
  Send(link, message);
}

void Worlds::Answer(LinkId link, uint64_t request, const absl::StatusOr<Bytes>& value) {
  ToRuntime message;
  message.mutable_answer()->set_request(request);
  if (!value.ok()) session::ToProto(value.status(), message.mutable_answer()->mutable_status());
  std::vector<Bytes> payload;
  if (value.ok()) payload.push_back(*value);
  // In this lane a link notices that nothing is read (PeerLinks::OnRuntimeMessage).
  links_->connection(link)->Send(message.SerializeAsString(), std::move(payload), net::Lane::kBulk);
}

void Worlds::Send(LinkId link, const ToRuntime& message) { links_->connection(link)->Send(message.SerializeAsString()); }

}  // namespace pw::controller
