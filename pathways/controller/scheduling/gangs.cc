#include "pathways/controller/scheduling/gangs.h"

#include <algorithm>
#include <utility>

#include "pathways/base/sort_and_merge.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

// Lists of waiting gangs are swept when they have reached this size, and doubled since the last sweep.
constexpr size_t kSweep = 64;

// Converts a host's report, which may be any number. Limited to a day, so that sums over devices and runs do not overflow.
int64_t Nanoseconds(double microseconds) {
  constexpr double kMost = 86'400e9;
  return microseconds > 0 ? static_cast<int64_t>(std::min(microseconds * 1000, kMost)) : 0;
}

}  // namespace

Gangs::Gangs(const gang::Options& options, Clock* clock, const resource::Topology* topology, dispatch::Outbox* outbox,
             trace::Recorder* recorder)
    : clock_(clock),
      started_(clock->Now()),
      topology_(topology),
      outbox_(outbox),
      recorder_(recorder),
      scheduler_(*gang::Scheduler::Create(options)) {}

int64_t Gangs::NowNs() const { return absl::ToInt64Nanoseconds(clock_->Now() - started_); }

void Gangs::Record(trace::Kind kind, const char* what, gang::GangId gang) {
  if (recorder_->on()) recorder_->Instant(kind, "scheduler", what, {.gang = gang.v});
}

void Gangs::RecordUnderway() {
  for (const auto& [gang, running] : running_) {
    if (!running.waiting && !running.hosts.empty()) Record(trace::Kind::kEnd, "under way", gang);
  }
}

std::vector<Gangs::Underway> Gangs::ListUnderway() const {
  std::vector<std::pair<const Running*, Underway>> found;
  for (const auto& [gang, running] : running_) {
    if (!running.waiting && !running.hosts.empty())
      found.push_back({&running, {gang, running.session, running.executable, false, running.granted_ns, LabelOf(running)}});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first->granted < b.first->granted; });
  std::set<HostId> taken;
  std::vector<Underway> result;
  for (auto& [running, underway] : found) {
    const auto& hosts = running->hosts;
    underway.heads = std::none_of(hosts.begin(), hosts.end(), [&](HostId host) { return taken.contains(host); });
    taken.insert(hosts.begin(), hosts.end());
    result.push_back(underway);
  }
  return result;
}

const Gangs::Placement* Gangs::PlacementOf(const Launch& launch) {
  Known& known = known_[launch.executable];
  if (known.placement != nullptr) return known.placement;
  std::map<IslandId, std::vector<DeviceId>> islands;
  for (DeviceId id : launch.devices) {
    const resource::Device& device = *topology_->FindDevice(id);
    islands[device.island].push_back(device.physical);
  }
  Places places;
  std::vector<DeviceId> all;
  for (auto& [island, devices] : islands) {  // several virtual devices of a program may be one physical device
    SortAndMerge(devices);
    all.insert(all.end(), devices.begin(), devices.end());
    places.push_back({island, scheduler_->Lane(island, devices)});
  }
  std::unique_ptr<Placement>& placement = placements_[places];
  if (placement == nullptr) placement = std::make_unique<Placement>(Placement{std::move(places), static_cast<int>(all.size())});
  std::sort(all.begin(), all.end());
  known.label =
      std::make_shared<const GangLabel>(GangLabel{launch.executable, std::string(launch.name), GangLabel::RangesOf(all)});
  return known.placement = placement.get();
}

std::shared_ptr<const GangLabel> Gangs::LabelOf(const Running& running) const {
  if (running.label != nullptr) return running.label;
  const auto it = known_.find(running.executable);
  return it == known_.end() ? nullptr : it->second.label;
}

void Gangs::Note(gang::GangId gang, const Running& running, int64_t busy_ns) {
  const int64_t now = NowNs();
  const int64_t granted = running.granted_ns > 0 ? running.granted_ns : std::max<int64_t>(0, now - busy_ns);
  recent_.Add({0, gang, running.session, LabelOf(running), granted, now, busy_ns, running.failed || running.partly_failed});
}

bool Gangs::Overlap(const Placement& a, const Placement& b, const gang::Scheduler& scheduler) {
  for (const auto& x : a.places) {
    for (const auto& y : b.places) {
      if (x.island == y.island && scheduler.island(x.island)->Overlap(x.lane, y.lane)) return true;
    }
  }
  return false;
}

bool Gangs::IsWaiting(gang::GangId gang) const {
  auto it = running_.find(gang);
  return it != running_.end() && it->second.waiting;
}

// Returns the gangs that must be granted before this one.
Gangs::GangList Gangs::Needs(const Launch& launch, const Placement* placement) {
  GangList needs;
  if (!due_.empty()) {
    for (ArrayId arg : launch.args) {
      if (auto it = due_.find(arg); it != due_.end()) needs.insert(needs.end(), it->second.begin(), it->second.end());
    }
  }
  if (launch.within != nullptr) {
    AddBarrierNeeds(launch, &needs);
  } else if (!clients_.empty()) {
    if (auto it = clients_.find(launch.session); it != clients_.end()) {
      if (launch.donates) AddDonorNeeds(it->second, placement, &needs);
      const GangList& barriers = it->second.barriers;
      // The gang then waits for all earlier runs, even those that share no array with it.
      if (!barriers.empty() && outbox_->order().MustWait(launch.args))
        needs.insert(needs.end(), barriers.begin(), barriers.end());
    }
  }
  if (launch.after != gang::GangId()) needs.push_back(launch.after);
  SortAndMerge(needs);
  return needs;
}

// Adds only those gangs of the client that were submitted before the run: later ones wait for the run.
void Gangs::AddBarrierNeeds(const Launch& launch, GangList* needs) const {
  if (!launch.donates) return;
  for (gang::GangId gang : launch.within->before) {
    if (IsWaiting(gang)) needs->push_back(gang);
  }
}

Gangs::Barrier Gangs::PlaceOf(SessionId session) const {
  Barrier place{session, {}, {}};
  const auto it = clients_.find(session);
  if (it == clients_.end()) return place;
  place.before.assign(it->second.copied.begin(), it->second.copied.end());
  for (const auto& [placement, gangs] : it->second.launched) place.before.insert(place.before.end(), gangs.begin(), gangs.end());
  std::erase_if(place.before, [this](gang::GangId gang) { return !IsWaiting(gang); });
  return place;
}

Gangs::Barrier Gangs::OpenBarrier(SessionId session) {
  Barrier barrier = PlaceOf(session);
  barrier.gang = scheduler_->Expect();
  clients_[session].barriers.push_back(barrier.gang);
  Running& running = running_[barrier.gang];
  running.session = session;
  running.waiting = true;
  return barrier;
}

void Gangs::CloseBarrier(const Barrier& barrier) {
  if (auto it = clients_.find(barrier.session); it != clients_.end()) std::erase(it->second.barriers, barrier.gang);
  Settle(barrier.gang);
  running_.erase(barrier.gang);
  scheduler_->OnDone(barrier.gang, std::nullopt, NowNs());
  TakeGrants();
}

void Gangs::AddDonorNeeds(Client& client, const Placement* placement, GangList* needs) {
  for (auto& [other, gangs] : client.launched) {
    if (other != placement && !Overlap(*other, *placement, *scheduler_)) continue;
    for (gang::GangId gang : gangs) {
      if (IsWaiting(gang)) needs->push_back(gang);
    }
    if (other == placement) gangs.clear();  // gangs that wait for this donor wait for them too
  }
  std::erase_if(client.copied, [&](gang::GangId gang) { return !IsWaiting(gang); });
  needs->insert(needs->end(), client.copied.begin(), client.copied.end());
}

void Gangs::Enlist(gang::GangId gang, const Launch& launch, const Placement* placement) {
  GangList& list = clients_[launch.session].launched[placement];
  if (list.size() >= kSweep && list.size() == list.capacity()) {
    std::erase_if(list, [&](gang::GangId other) { return !IsWaiting(other); });
    list.reserve(2 * list.size() + kSweep);
  }
  list.push_back(gang);
  for (ArrayId result : launch.results) MakeDue(result, gang);
}

void Gangs::MakeDue(ArrayId array, gang::GangId gang) {
  due_[array].push_back(gang);
  running_.at(gang).due.push_back(array);
}

Gangs::Ticket Gangs::Submit(const Launch& launch) {
  const Placement* placement = PlacementOf(launch);
  const GangList needs = Needs(launch, placement);
  const gang::GangId gang = scheduler_->Submit({launch.session, launch.executable, placement->places, needs}, NowNs());
  Running running;
  running.session = launch.session;
  running.hosts.assign(launch.hosts.begin(), launch.hosts.end());
  running.hosts_left = static_cast<int>(launch.hosts.size());
  running.devices = placement->devices;
  running.waiting = scheduler_->IsWaiting(gang);
  running.executable = launch.executable;
  if (recent_.on()) running.label = LabelOf(running);
  const bool waits = running.waiting;
  if (!waits) {
    running.granted = next_grant_++;
    if (recent_.on()) running.granted_ns = NowNs();
  }
  running_.insert({gang, std::move(running)});
  if (waits) {
    Enlist(gang, launch, placement);
  } else {
    Record(trace::Kind::kGrant, "granted at once", gang);
  }
  TakeGrants(gang);
  return {gang, !waits};
}

void Gangs::OnHostDone(gang::GangId gang, std::optional<double> device_microseconds, bool partly) {
  auto it = running_.find(gang);
  if (it == running_.end()) return;
  Running& running = it->second;
  running.failed |= !device_microseconds.has_value();
  running.partly_failed |= partly;
  running.device_microseconds += device_microseconds.value_or(0);
  if (--running.hosts_left > 0) return;
  Done& done = done_[running.session];
  done.device_microseconds += static_cast<double>(Nanoseconds(running.device_microseconds)) / 1000;
  ++done.gangs;
  std::optional<int64_t> measured_ns;
  if (!running.failed) measured_ns = Nanoseconds(running.device_microseconds / std::max(1, running.devices));
  if (!running.waiting) Record(trace::Kind::kEnd, running.failed || running.partly_failed ? "failed" : "done", gang);
  if (recent_.on() && !running.waiting)
    Note(gang, running, Nanoseconds(running.device_microseconds / std::max(1, running.devices)));
  Settle(gang);
  running_.erase(gang);
  scheduler_->OnDone(gang, measured_ns, NowNs());
  TakeGrants();
}

// The gang no longer waits: no array is due from it any more.
void Gangs::Settle(gang::GangId gang) {
  Running& running = running_.at(gang);
  running.waiting = false;
  for (ArrayId array : std::exchange(running.due, {})) {
    auto it = due_.find(array);
    if (it == due_.end()) continue;
    auto& gangs = it->second;
    gangs.erase(std::remove(gangs.begin(), gangs.end(), gang), gangs.end());
    if (gangs.empty()) due_.erase(it);
  }
}

// The command of `submitted` carries its grant and is added next. So the grants before it are flushed first. Grants after it are sent
// later: they were made because the client of `submitted` has used more of its share and now stands behind others (GG-1).
void Gangs::TakeGrants(gang::GangId submitted) {
  for (gang::GangId gang : scheduler_->TakeGrants()) {
    if (gang == submitted) {
      FlushGrants();
      continue;
    }
    auto it = running_.find(gang);
    if (it == running_.end()) continue;
    for (HostId host : it->second.hosts) grants_[host].add_gangs(gang.v);
    it->second.granted = next_grant_++;
    if (recent_.on()) it->second.granted_ns = NowNs();
    Record(trace::Kind::kGrant, "granted", gang);
    Settle(gang);
  }
}

void Gangs::FlushGrants() {
  PlanWake();
  if (grants_.empty()) return;
  for (auto& [host, grant] : std::exchange(grants_, {})) {
    ::pathways::v1::Command command;
    *command.mutable_grant() = std::move(grant);
    outbox_->Add(host, std::move(command));
  }
}

void Gangs::PlanWake() {
  const int64_t wake = scheduler_->WakeAt();
  if (wake >= planned_ns_ || after_ == nullptr) return;
  planned_ns_ = wake;
  after_(absl::Nanoseconds(std::max<int64_t>(0, wake - NowNs())), [this] {
    planned_ns_ = gang::IslandScheduler::kNever;
    scheduler_->Advance(NowNs());
    TakeGrants();
  });
}

void Gangs::Derive(SessionId session, ArrayId result, absl::Span<const ArrayId> sources) {
  if (due_.empty()) return;
  std::set<gang::GangId> needs;
  for (ArrayId source : sources) {
    if (auto it = due_.find(source); it != due_.end()) needs.insert(it->second.begin(), it->second.end());
  }
  if (needs.empty()) return;
  for (gang::GangId gang : needs) MakeDue(result, gang);
  clients_[session].copied.merge(needs);
}

void Gangs::Await(const buffers::LogicalArray::Ref& array) {
  const ArrayId id = array->id();
  Outside& outside = outside_[id];
  if (++outside.missing > 1) return;
  outside.gang = scheduler_->Expect();
  outside.array = array;
  Running& running = running_[outside.gang];
  running.session = array->owner();
  running.waiting = true;
  MakeDue(id, outside.gang);
  array->WhenSettled([this, id](const absl::Status&) { EndOutside(id); });
}

void Gangs::Arrived(ArrayId array) {
  auto it = outside_.find(array);
  if (it != outside_.end() && --it->second.missing == 0) EndOutside(array);
}

void Gangs::EndOutside(ArrayId array) {
  auto it = outside_.find(array);
  if (it == outside_.end()) return;
  const Outside outside = std::move(it->second);  // the array is released last
  const gang::GangId gang = outside.gang;
  outside_.erase(it);
  Settle(gang);
  running_.erase(gang);
  scheduler_->OnDone(gang, std::nullopt, NowNs());
  TakeGrants();
}

void Gangs::SetShare(SessionId session, const gang::Share& share) {
  scheduler_->SetShare(session, share);
  TakeGrants();
}

gang::Scheduler::ClientStats Gangs::ClientOf(SessionId session) const {
  auto it = scheduler_->clients().find(session);
  return it == scheduler_->clients().end() ? gang::Scheduler::ClientStats() : it->second;
}

// The hosts fail gangs that were not granted when they release the session's arrays.
void Gangs::EndSession(SessionId session) {
  const std::vector<ArrayId> expected =
      SortedKeysWhere(outside_, [session](const Outside& outside) { return outside.array->owner() == session; });
  scheduler_->Cancel(session);
  for (ArrayId id : expected) EndOutside(id);
  clients_.erase(session);
  const auto ends = [session](const Running& r) { return r.session == session && r.waiting && !r.hosts.empty(); };
  for (gang::GangId gang : SortedKeysWhere(running_, ends)) Settle(gang);
  TakeGrants();
}

void Gangs::ForgetExecutable(ExecutableId executable) {
  known_.erase(executable);
  scheduler_->ForgetExecutable(executable);
}

void Gangs::OnHostLost(HostId host, absl::Span<const DeviceId> devices, const absl::Status& error) {
  scheduler_->OnDevicesLost(devices);
  for (gang::GangId gang : scheduler_->TakeLost()) {
    if (!IsWaiting(gang)) continue;
    for (HostId other : running_.at(gang).hosts) {
      if (other == host) continue;
      auto* refused = grants_[other].add_refused();
      refused->set_gang(gang.v);
      session::ToProto(error, refused->mutable_status());
    }
    Settle(gang);
  }
  TakeGrants();
}

}  // namespace pw::controller
