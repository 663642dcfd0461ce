#include "pathways/sim/network.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/address.h"
#include "pathways/sim/mistakes.h"
#include "pathways/sim/wire.h"

namespace pw::sim {
namespace {

// Interval between attempts to connect after a refusal.
constexpr absl::Duration kRetry = absl::Milliseconds(20);

bool IsController(const Process& process) { return absl::StartsWith(process.name(), "controller."); }
bool IsHost(const Process& process) { return !process.island().empty(); }  // controllers and clients belong to no island

}  // namespace

struct Network::Listening {
  Process* process;
  net::Transport::AcceptCallback accept;
};

class SimConnection final : public net::Connection {
 public:
  SimConnection(std::shared_ptr<Wire> wire, int side) : wire_(std::move(wire)), side_(side) {}
  ~SimConnection() override { wire_->Abandon(side_); }

  void Start(Handler* handler) override { wire_->Start(side_, handler); }
  void Send(std::string header, std::vector<Bytes> payload, net::Lane lane) override {
    wire_->Send(side_, std::move(header), std::move(payload), lane);
  }
  bool CanSendBulk() const override { return wire_->CanSendBulk(side_); }
  void Close(absl::Status reason) override { wire_->Close(side_, std::move(reason)); }
  net::Counters counters() const override { return wire_->counters(side_); }
  const std::string& peer() const override { return wire_->peer(side_); }
  net::PeerProof proof() const override { return net::PeerProof::kOwn; }

 private:
  const std::shared_ptr<Wire> wire_;
  const int side_;
};

// The transport of one process.
class Network::Host final : public net::Transport {
 public:
  Host(Network* network, Process* process) : network_(network), process_(process) {}
  ~Host() override { *alive_ = false; }

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address, AcceptCallback on_accept) override;
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override;

 private:
  class Listener;
  struct Attempt {
    std::string address;
    absl::Time deadline;
    absl::Duration timeout;
    ConnectCallback on_done;
  };
  void Try(std::shared_ptr<Attempt> attempt);
  void Join(const std::shared_ptr<Listening>& listening, const std::shared_ptr<Attempt>& attempt);

  Network* const network_;
  Process* const process_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class Network::Host::Listener final : public net::Listener {
 public:
  Listener(Network* network, std::string address, std::shared_ptr<Listening> listening)
      : network_(network), address_(std::move(address)), listening_(std::move(listening)) {}
  ~Listener() override {
    listening_->accept = nullptr;
    const auto it = network_->listening_.find(address_);
    if (it != network_->listening_.end() && it->second == listening_) network_->listening_.erase(it);
  }
  const std::string& address() const override { return address_; }

 private:
  Network* const network_;
  const std::string address_;
  const std::shared_ptr<Listening> listening_;
};

absl::StatusOr<std::unique_ptr<net::Listener>> Network::Host::Listen(const std::string& address, AcceptCallback on_accept) {
  PW_ASSIGN_OR_RETURN(net::Address where, net::ParseAddress(address));
  if (where.port == 0) where.port = static_cast<uint16_t>(network_->next_port_++);
  std::string name = net::ToString(where);
  auto listening = std::make_shared<Listening>(Listening{process_, std::move(on_accept)});
  auto [it, added] = network_->listening_.emplace(name, listening);
  if (!added && !it->second->process->dead()) return absl::AlreadyExistsError(absl::StrCat(name, " is in use"));
  it->second = listening;
  return std::make_unique<Listener>(network_, std::move(name), std::move(listening));
}

void Network::Host::Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) {
  auto attempt = std::make_shared<Attempt>(Attempt{address, network_->world_->now() + timeout, timeout, std::move(on_done)});
  if (absl::StatusOr<net::Address> where = net::ParseAddress(address); where.ok()) attempt->address = net::ToString(*where);
  Try(std::move(attempt));
}

void Network::Host::Try(std::shared_ptr<Attempt> attempt) {
  const auto it = network_->listening_.find(attempt->address);
  const bool cut_off =
      network_->IsCutOff(*process_) || (it != network_->listening_.end() && network_->IsLinkCut(*process_, *it->second->process));
  if (!cut_off && it != network_->listening_.end() && !it->second->process->dead()) return Join(it->second, attempt);
  if (network_->world_->now() >= attempt->deadline) {
    return process_->Post([alive = alive_, attempt, cut_off] {
      if (!*alive) return;
      absl::Status failure = absl::UnavailableError(
          absl::StrCat("cannot connect to ", attempt->address, " within ", absl::FormatDuration(attempt->timeout),
                       cut_off ? " (Network is unreachable)" : " (Connection refused)"));
      attempt->on_done(cut_off ? failure : net::MarkedNobodyListens(std::move(failure)));
    });
  }
  process_->After(kRetry, process_, [this, alive = alive_, attempt = std::move(attempt)]() mutable {
    if (*alive) Try(std::move(attempt));
  });
}

void Network::Host::Join(const std::shared_ptr<Listening>& listening, const std::shared_ptr<Attempt>& attempt) {
  auto wire = std::make_shared<Wire>(network_, process_, listening->process, attempt->address,
                                     absl::StrCat(process_->name(), " at ", attempt->address));
  network_->wires_[process_].push_back(wire);
  network_->wires_[listening->process].push_back(wire);
  const absl::Duration there = network_->Travel(*process_, *listening->process, 0);
  network_->world_->After(there, [listening, wire] {
    listening->process->Post([listening, connection = std::make_unique<SimConnection>(wire, 1)]() mutable {
      if (listening->accept) listening->accept(std::move(connection));
    });
  });
  network_->world_->After(there * 2, [process = process_, alive = alive_, attempt, wire] {
    process->Post([alive, attempt, connection = std::make_unique<SimConnection>(wire, 0)]() mutable {
      if (*alive) attempt->on_done(std::move(connection));
    });
  });
}

Network::Network(World* world, const NetworkOptions& options) : world_(world), options_(options) {}
Network::~Network() = default;

std::unique_ptr<net::Transport> Network::TransportOf(Process* process) { return std::make_unique<Host>(this, process); }

absl::Duration Network::HeldBack(const Process& a, const Process& b) const {
  if (world_->now() >= apart_until_ || apart_.contains(a.name()) == apart_.contains(b.name())) return absl::ZeroDuration();
  return apart_until_ - world_->now();
}

absl::Duration Network::Travel(const Process& from, const Process& to, size_t bytes) {
  if (&from == &to) return absl::ZeroDuration();
  const LinkSpeed& speed = SpeedOf(from, to);
  return HeldBack(from, to) + Disturbed(from, to) + world_->Between(speed.latency, speed.latency + speed.jitter) +
         OnLink(from, to, bytes);
}

absl::Duration Network::OnLink(const Process& from, const Process& to, size_t bytes) const {
  if (&from == &to) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(bytes) / SpeedOf(from, to).bytes_per_second);
}

const LinkSpeed& Network::SpeedOf(const Process& a, const Process& b) const {
  return !a.island().empty() && a.island() == b.island() ? options_.inside : options_.between;
}

absl::Duration Network::Disturbed(const Process& a, const Process& b) {
  std::erase_if(disturbances_, [this](const Disturbance& one) { return one.until <= world_->now(); });
  absl::Duration longer;
  for (const Disturbance& one : disturbances_) {
    if (one.process != a.name() && one.process != b.name()) continue;
    longer += one.by_chance ? world_->Between(absl::ZeroDuration(), one.by) : one.by;
  }
  return longer;
}

void Network::Disturb(const std::string& process, absl::Duration by, bool by_chance, absl::Time until) {
  disturbances_.push_back({process, by, by_chance, until});
}

void Network::Cut(const Process& process, bool silently) {
  if (bug_ == Bug::kHushEnd && world_->Below(one_in_) == 0) silently = true;
  for (const std::weak_ptr<Wire>& weak : wires_[&process]) {
    if (const std::shared_ptr<Wire> wire = weak.lock()) wire->Cut(wire->process(0) == &process ? 0 : 1, silently);
  }
  wires_.erase(&process);
}

void Network::CutOff(const Process& process, absl::Time until) {
  for (const std::weak_ptr<Wire>& weak : wires_[&process]) {
    if (const std::shared_ptr<Wire> wire = weak.lock()) wire->Break();
  }
  cut_off_until_[&process] = until;
}

void Network::CutLink(const Process& a, const Process& b, absl::Time until) {
  for (const std::weak_ptr<Wire>& weak : wires_[&a]) {
    const std::shared_ptr<Wire> wire = weak.lock();
    if (wire != nullptr && (wire->process(0) == &b || wire->process(1) == &b)) wire->Break();
  }
  absl::Time& healed = link_cut_until_.try_emplace({&a, &b}, absl::InfinitePast()).first->second;
  healed = std::max(healed, until);
}

bool Network::IsLinkCut(const Process& a, const Process& b) const {
  const auto it = link_cut_until_.find({&a, &b});
  return it != link_cut_until_.end() && world_->now() < it->second;
}

bool Network::IsCutOff(const Process& process) const {
  const auto it = cut_off_until_.find(&process);
  return it != cut_off_until_.end() && world_->now() < it->second;
}

void Network::Partition(std::set<std::string> processes, absl::Time until) {
  apart_ = std::move(processes);
  apart_until_ = until;
}

void Network::CountFrame(const Process& from, const Process& to, size_t bytes) {
  totals_.frames += 1;
  totals_.bytes += bytes;
  if (from.island() != to.island()) totals_.bytes_between_islands += bytes;
  Count* way = nullptr;
  if (IsController(from) && IsHost(to)) way = &totals_.to_hosts;
  if (IsHost(from) && IsController(to)) way = &totals_.from_hosts;
  if (IsHost(from) && IsHost(to)) way = &totals_.between_hosts;
  if (way == nullptr) return;
  way->frames += 1;
  way->bytes += bytes;
}

bool Network::StrikesFrame() {
  const bool of_others = bug_ == Bug::kNone || bug_ == Bug::kHushEnd || bug_ == Bug::kPatience || IsMistake(bug_);
  return !of_others && world_->Below(one_in_) == 0;
}

void Network::AddRepeats(const Process& from, const Process& to, std::string* header, std::vector<Bytes>* payload) {
  if (repeats_ != nullptr && IsController(from) && IsHost(to)) repeats_->OnFrame(from, to, header, payload);
}

void Network::Mistake(const Process& from, const Process& to, std::string* header) {
  const bool to_worker = IsController(from) && IsHost(to), from_worker = IsHost(from) && IsController(to);
  const bool to_client = IsController(from) && !to_worker;
  if (!IsMistake(bug_) || !(to_worker || from_worker || to_client)) return;
  const Way way = to_worker ? Way::kToWorker : from_worker ? Way::kFromWorker : Way::kToClient;
  std::optional<std::string> mistaken = Mistaken(bug_, way, *header);
  if (mistaken.has_value() && world_->Below(one_in_) == 0) *header = *std::move(mistaken);
}

void Network::Plant(Bug bug, uint64_t one_in) {
  bug_ = bug;
  one_in_ = one_in;
}

}  // namespace pw::sim
