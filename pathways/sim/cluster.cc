#include "pathways/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::sim {
namespace {

constexpr char kControllerAddress[] = "tcp:controller:1";
constexpr char kAddressForClients[] = "tcp:controller:2";
constexpr absl::Duration kFormWithin = absl::Minutes(1);
constexpr absl::Duration kFlushed = absl::Milliseconds(10);   // a process that has ended after its last frame lets that go out
constexpr absl::Duration kReturnWithin = absl::Seconds(8);  // hosts make longer attempts to connect while nobody answers

// Returns the devices of each host, by name.
std::string PlacesOf(controller::ClusterImpl& cluster) {
  std::map<std::string, std::string> places;
  for (const resource::Host& host : cluster.fabric().topology().TakeSnapshot().hosts) {
    for (DeviceId device : host.devices) absl::StrAppend(&places[host.name], " ", device.v);
  }
  std::string text;
  for (const auto& [name, devices] : places) absl::StrAppend(&text, name, devices, "\n");
  return text;
}

}  // namespace

SimCluster::SimCluster(const Scenario& scenario, World* world)
    : scenario_(scenario), world_(world), network_(world, scenario.network), referee_(world) {
  network_.Plant(scenario.bug, scenario.bug_one_in);
  if (scenario.repeats > 0) {
    network_.Repeat(static_cast<uint64_t>(scenario.repeats),
                    [this](SessionId session) { return controller().fabric().settlement().Has(session); });
  }
  StartController();
  for (int h = 0; h < scenario.hosts; ++h) AddHost();
}

SimCluster::~SimCluster() {
  for (auto& lives : hosts_) {
    for (auto& life : lives) life->Die();
  }
  for (auto& process : controllers_) process->Kill();
  for (auto& process : clients_) process->Kill();
  world_->Drop();
}

void SimCluster::StartController() {
  controllers_.push_back(
      std::make_unique<Process>(world_, absl::StrCat("controller.", controllers_.size()), "", scenario_.task_time));
  Process* process = controllers_.back().get();
  controller::ClusterOptions options;
  options.expect_hosts = scenario_.hosts;
  options.heartbeat_limit = scenario_.heartbeat * (scenario_.bug == Bug::kPatience ? 2 : 1);
  options.host_grace = scenario_.heartbeat;
  options.epoch = controllers_.size();
  if (KillsControllers(scenario_)) options.controller_grace = kControllerGrace;
  options.restores_sessions = scenario_.restores != 0;
  options.gang = scenario_.gang;
  options.sequential_dispatch = scenario_.sequential;
  options.share_memory = false;
  if (CutsClients(scenario_)) options.client_grace = kClientGrace;
  // Random ones would tell two runs of one seed apart.
  options.make_key = [life = controllers_.size(), n = uint64_t{0}]() mutable {
    return absl::StrCat("key ", n++, " of controller ", life);
  };
  controller_transports_.push_back(network_.TransportOf(process));
  clusters_.push_back(controller::ClusterImpl::Create(options, {process, process, process}));
  // The address is free: the previous controller is dead.
  clusters_.back()->Listen(controller_transports_.back().get(), kControllerAddress).value();
  session::SessionService::Options sessions;
  sessions.grace = options.client_grace;
  sessions.make_key = [n = uint64_t{0}]() mutable { return absl::StrCat("key ", n++); };
  if (options.restores_sessions) {
    sessions.epoch = options.epoch;
    sessions.controller_grace = options.controller_grace;
    sessions.session_key = [](uint64_t epoch, uint64_t session, const std::string& user) {
      return absl::StrCat("key of session ", session, " of ", user, " under ", epoch);
    };
  }
  services_.push_back(session::SessionService::Create(std::move(sessions), {clusters_.back().get(), process}));
  services_.back()->Listen(controller_transports_.back().get(), kAddressForClients).value();
  referee_.Watch(clusters_.back().get());
}

std::string SimCluster::IslandOf(int number) const { return absl::StrCat("i", number / std::max(scenario_.hosts_per_island, 1)); }

void SimCluster::Born(int number) {
  Host::Options options;
  options.name = absl::StrCat("w", number, ".", hosts_[number].size() + 1);
  options.island = IslandOf(number);
  options.controller = kControllerAddress;
  options.devices = scenario_.devices;
  options.device_memory_bytes = scenario_.device_memory_bytes;
  options.task_time = scenario_.task_time;
  hosts_[number].push_back(std::make_unique<Host>(world_, &network_, options));
}

bool SimCluster::Form() {
  return world_->RunUntil(world_->now() + kFormWithin, [this] { return clusters_.back()->formed(); });
}

int SimCluster::AddHost() {
  hosts_.emplace_back();
  Born(hosts() - 1);
  return hosts() - 1;
}

void SimCluster::StartHost(int number) {
  if (!alive(number)) Born(number);
}

std::string SimCluster::address_for_clients() { return kAddressForClients; }

Process* SimCluster::NewClient(const std::string& name, absl::Duration task_time) {
  clients_.push_back(std::make_unique<Process>(world_, name, "", task_time));
  return clients_.back().get();
}

void SimCluster::KillClient(Process* process) {
  process->Kill();
  network_.Cut(*process, false);
}

void SimCluster::CutClient(Process* process, absl::Duration duration) { network_.CutOff(*process, world_->now() + duration); }

void SimCluster::ExpectLoss(const std::string& host, absl::Duration within) {
  world_->After(within, [this, host, within] {
    if (!referee_.controller_died() && !referee_.Lost(host)) {
      referee_.Violation(
          absl::StrCat("host ", host, " is still taken for living ", absl::FormatDuration(within), " after its end"));
    }
  });
}

void SimCluster::CrashHost(int number, bool silently) {
  Host& struck = host(number);
  if (struck.process().dead()) return;
  referee_.Struck(struck.name());
  referee_.Died(struck.name());
  network_.Cut(struck.process(), silently);
  struck.Die();
  const bool noticed = !silently && !network_.IsLinkCut(struck.process(), *controllers_.back());
  ExpectLoss(struck.name(), noticed ? Referee::kNoticeDeath : scenario_.heartbeat * 1.25);
}

void SimCluster::StopHost(int number, absl::Duration duration) {
  Process& process = host(number).process();
  if (process.dead()) return;
  // A stop shorter than the limit may only cost time.
  if (duration > scenario_.heartbeat * 0.6) referee_.Struck(process.name());
  if (duration > scenario_.heartbeat * 1.25) ExpectLoss(process.name(), scenario_.heartbeat * 1.25);
  process.Stop();
  world_->After(duration, [&process] { process.Continue(); });
}

void SimCluster::SlowHost(int number, double factor, absl::Duration duration) {
  Host& slowed = host(number);
  slowed.Slow(factor);
  world_->After(duration, [&slowed] { slowed.Slow(1); });
}

void SimCluster::PartHost(int number, absl::Duration duration) {
  Process& process = host(number).process();
  if (duration > scenario_.heartbeat * 0.6) referee_.Struck(process.name());
  network_.Partition({process.name()}, world_->now() + duration);
}

void SimCluster::UnlinkHost(int number, absl::Duration duration) {
  Process& process = host(number).process();
  if (process.dead()) return;
  if (duration > scenario_.heartbeat * 0.6) referee_.Struck(process.name());
  if (duration > scenario_.heartbeat * 1.25) ExpectLoss(process.name(), scenario_.heartbeat * 1.25);
  network_.CutLink(process, *controllers_.back(), world_->now() + duration);
}

void SimCluster::SeverHost(int number, absl::Duration duration) {
  if (hosts() < 2) return;
  const int step = 1 + static_cast<int>(world_->Below(static_cast<uint64_t>(hosts() - 1)));
  Process& process = host(number).process();
  Process& other = host((number + step) % hosts()).process();
  if (process.dead() || other.dead()) return;
  for (Process* end : {&process, &other}) {
    if (duration > scenario_.heartbeat * 0.6) referee_.Struck(end->name());
  }
  network_.CutLink(process, other, world_->now() + duration);
}

void SimCluster::DelayHost(int number, absl::Duration by, bool by_chance, absl::Duration duration) {
  Process& process = host(number).process();
  if (by > scenario_.heartbeat * 0.6) referee_.Struck(process.name());
  network_.Disturb(process.name(), by, by_chance, world_->now() + duration);
}

void SimCluster::CrashController(absl::Duration away) { EndController(PlacesOf(*clusters_.back()), away); }

void SimCluster::StopController(absl::Duration away) {
  controller::ClusterImpl* const cluster = clusters_.back().get();
  session::SessionService* const service = services_.back().get();
  const auto left = [this, cluster, service, away] {
    const std::string places = PlacesOf(*cluster);
    service->Leave("the scenario says so");
    cluster->Stop("the scenario says so", false, [this, service, places, away] {
      service->Stop(absl::UnavailableError("the scenario says so"));
      world_->After(kFlushed, [this, places, away] { EndController(places, away); });
    });
  };
  cluster->Post([service, left] { service->Pause("the scenario says so", left); });
}

void SimCluster::EndController(const std::string& places, absl::Duration away) {
  if (scenario_.restores == 0) referee_.ControllerDied();
  network_.Cut(*controllers_.back(), false);
  controllers_.back()->Kill();
  world_->After(away / 4, [this, away] {  // commands that were under way have come
    for (auto& lives : hosts_) {
      for (auto& life : lives) ExpectKept(life.get(), life->arrays(), away / 2);
    }
  });
  world_->After(away, [this] { StartController(); });
  world_->After(away + kReturnWithin, [this, places] {
    if (scenario_.restores == 0 && arrays() != 0) referee_.Violation("hosts hold arrays of a controller that has been replaced");
    if (const std::string now = PlacesOf(*clusters_.back()); now != places)
      referee_.Violation(absl::StrCat("under the next controller hosts have other places: ", now, " instead of ", places));
  });
}

// A host that waits for a controller frees nothing.
void SimCluster::ExpectKept(Host* life, int64_t arrays, absl::Duration after) {
  world_->After(after, [this, life, arrays] {
    if (!life->process().dead() && life->arrays() < arrays)
      referee_.Violation(absl::StrCat("host ", life->name(), " has freed arrays while it waited for a controller"));
  });
}

int64_t SimCluster::arrays() const {
  int64_t sum = 0;
  for (const auto& lives : hosts_) {
    for (const auto& life : lives) sum += life->process().stopped() ? 0 : life->arrays();
  }
  return sum;
}

int64_t SimCluster::charged_bytes() const {
  int64_t sum = 0;
  for (const auto& lives : hosts_) {
    for (const auto& life : lives) sum += life->process().stopped() ? 0 : life->charged_bytes();
  }
  return sum;
}

int64_t SimCluster::had_names() const {
  int64_t sum = 0;
  for (const auto& lives : hosts_) {
    for (const auto& life : lives) sum += life->process().stopped() ? 0 : life->had_names();
  }
  return sum;
}

std::map<std::string, std::vector<int>> SimCluster::Launches() const {
  std::map<std::string, std::vector<int>> launches;
  for (const auto& lives : hosts_) {
    for (const auto& life : lives) launches[life->name()] = life->launches();
  }
  return launches;
}

}  // namespace pw::sim
