#include "pathways/gang/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::gang {

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(const Options& options) {
  if (auto policy = MakePolicy(options); !policy.ok()) return policy.status();
  if (options.window_gangs < 1 || options.window_ns < 0 || options.lead_ns < 0 || options.default_cost_ns < 0 || options.aging_ns < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a scheduling window of ", options.window_gangs, " gangs and ",
                                                   options.window_ns, " ns, a lead of ", options.lead_ns, " ns, default cost ", options.default_cost_ns,
                                                   " ns and aging ", options.aging_ns,
                                                   " ns: at least one gang must fit, and times cannot be negative"));
  }
  return std::unique_ptr<Scheduler>(new Scheduler(options));
}

IslandScheduler& Scheduler::Island(IslandId id) {
  std::unique_ptr<IslandScheduler>& island = islands_[id];
  if (island == nullptr) {
    island = std::make_unique<IslandScheduler>(options_, *MakePolicy(options_), &costs_, &now_ns_);  // checked in Create
    for (const auto& [client, stats] : clients_) island->SetShare(client, stats.share);
  }
  return *island;
}

const IslandScheduler* Scheduler::island(IslandId id) const {
  auto it = islands_.find(id);
  return it == islands_.end() ? nullptr : it->second.get();
}

LaneId Scheduler::Lane(IslandId island, absl::Span<const DeviceId> devices) { return Island(island).Lane(devices); }

GangId Scheduler::Submit(const Gang& gang, int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  const GangId id(next_gang_++);
  const bool usable = std::all_of(gang.places.begin(), gang.places.end(),
                                  [&](const Place& place) { return Island(place.island).usable(place.lane); });
  if (!usable) {
    lost_.push_back(id);
    return id;
  }
  Record record;
  record.client = gang.client;
  record.executable = gang.executable;
  record.places.assign(gang.places.begin(), gang.places.end());
  record.submitted_ns = now_ns;
  for (GangId producer : gang.producers) {
    auto it = records_.find(producer);
    if (it == records_.end()) continue;
    ++record.producers_running;
    record.producers_waiting += it->second.granted ? 0 : 1;
    it->second.dependents.push_back(id);
  }
  ++clients_[gang.client].waiting;
  const bool eligible = record.producers_waiting == 0;
  auto it = records_.insert({id, std::move(record)}).first;
  if (!eligible) return id;
  Enqueue(id, it->second);
  Pump();
  return id;
}

GangId Scheduler::Expect() {
  const GangId id(next_gang_++);
  records_.insert({id, Record()});
  return id;
}

// Queues the gang in the next of its islands.
void Scheduler::Enqueue(GangId id, Record& record) {
  const Place place = record.places[record.reached++];
  Island(place.island)
      .Enqueue({id, record.client, place.lane, record.executable, record.submitted_ns, record.producers_running == 0});
  dirty_.push_back(place.island);
}

void Scheduler::Pump() {
  while (!dirty_.empty()) {
    const IslandId island = dirty_.front();
    dirty_.pop_front();
    PumpIsland(island);
  }
}

void Scheduler::PumpIsland(IslandId island) {
  std::vector<GangId> next;     // gangs that are first here, and must be queued in their next island
  std::vector<GangId> granted;  // gangs that are first in their last island
  islands_.at(island)->Pump([&](GangId id) {
    const Record& record = records_.at(id);
    const bool last = record.reached == record.places.size();
    (last ? granted : next).push_back(id);
    return last ? IslandScheduler::Decision::kGrant : IslandScheduler::Decision::kHold;
  });
  for (GangId id : granted) Grant(id);
  for (GangId id : next) Enqueue(id, records_.at(id));
}

// REQUIRES: the gang is granted in its last island, and held in the others.
void Scheduler::Grant(GangId id) {
  Record& record = records_.at(id);
  for (size_t i = 0; i + 1 < record.places.size(); ++i) {
    Island(record.places[i].island).Commit(id);
    dirty_.push_back(record.places[i].island);
  }
  record.granted = true;
  ClientStats& client = clients_[record.client];
  --client.waiting;
  ++client.granted;
  ++grants_total_;
  grants_.push_back(id);
  for (GangId dependent : record.dependents) {
    auto it = records_.find(dependent);
    if (it != records_.end() && --it->second.producers_waiting == 0) Enqueue(dependent, it->second);
  }
}

// Releases the gangs that waited for one that is gone. A dependent is listed once for each time that it named the gang.
void Scheduler::ReleaseDependents(const Record& record, bool was_granted) {
  for (GangId dependent : record.dependents) {
    auto it = records_.find(dependent);
    if (it == records_.end()) continue;
    Record& other = it->second;
    --other.producers_running;
    if (!was_granted && --other.producers_waiting == 0) {
      Enqueue(dependent, other);
    } else if (other.producers_running == 0 && other.reached > 0 && !other.granted) {
      for (size_t i = 0; i < other.reached; ++i) {
        Island(other.places[i].island).SetInputsComplete(dependent);
        dirty_.push_back(other.places[i].island);
      }
    }
  }
}

void Scheduler::Gone(GangId id) {
  auto it = records_.find(id);
  if (it == records_.end()) return;
  const Record record = std::move(it->second);
  records_.erase(it);
  for (size_t i = 0; i < record.reached; ++i) {
    Island(record.places[i].island).Remove(id);
    dirty_.push_back(record.places[i].island);
  }
  if (!record.places.empty()) {
    ClientStats& client = clients_[record.client];
    --(record.granted ? client.granted : client.waiting);
    ForgetIfOver(record.client);
  }
  ReleaseDependents(record, record.granted);
}

void Scheduler::ForgetIfOver(ClientId client) {
  auto it = clients_.find(client);
  if (it == clients_.end() || !it->second.ended || it->second.waiting + it->second.granted > 0) return;
  clients_.erase(it);
  for (auto& [id, island] : islands_) island->Forget(client);
}

void Scheduler::OnDone(GangId id, std::optional<int64_t> measured_ns, int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  auto it = records_.find(id);
  if (it == records_.end()) return;
  if (it->second.granted && measured_ns.has_value()) {
    const Record& record = it->second;
    const int64_t measured = std::max<int64_t>(0, *measured_ns);
    costs_.Observe(record.executable, measured);
    ClientStats& client = clients_[record.client];
    ++client.done;
    for (const Place& place : record.places) {
      IslandScheduler& island = Island(place.island);
      client.device_ns += measured * static_cast<int64_t>(island.device_count(place.lane));
      island.Finish(id, measured);
    }
  }
  Gone(id);
  Pump();
}

void Scheduler::Cancel(ClientId client) {
  std::vector<GangId> waiting;
  for (const auto& [id, record] : records_) {
    if (record.client == client && !record.granted && !record.places.empty()) waiting.push_back(id);
  }
  // The youngest first, so that no gang becomes eligible because its producer is removed in this call.
  std::sort(waiting.begin(), waiting.end(), std::greater<>());
  for (GangId id : waiting) Gone(id);
  if (auto it = clients_.find(client); it != clients_.end()) it->second.ended = true;
  ForgetIfOver(client);
  Pump();
}

void Scheduler::OnDevicesLost(absl::Span<const DeviceId> devices) {
  std::vector<GangId> lost;
  for (const auto& [island, scheduler] : islands_) {
    const std::vector<GangId> here = LoseDevices(island, devices);
    lost.insert(lost.end(), here.begin(), here.end());
  }
  std::sort(lost.begin(), lost.end());
  for (GangId id : lost) Gone(id);
  lost_.insert(lost_.end(), lost.begin(), lost.end());
  Pump();
}

void Scheduler::OnDevicesBack(absl::Span<const DeviceId> devices) {
  for (const auto& [id, island] : islands_) island->RegainDevices(devices);
}

// Returns the gangs that have a lost place in this island; they stay in the records.
std::vector<GangId> Scheduler::LoseDevices(IslandId island, absl::Span<const DeviceId> devices) {
  std::vector<GangId> lost = islands_.at(island)->LoseDevices(devices);
  // Gangs that have not reached this island's order yet.
  for (const auto& [id, record] : records_) {
    for (size_t i = record.reached; i < record.places.size(); ++i) {
      if (record.places[i].island == island && !islands_.at(island)->usable(record.places[i].lane)) lost.push_back(id);
    }
  }
  return lost;
}

void Scheduler::SetShare(ClientId client, const Share& share) {
  clients_[client].share = share;
  for (auto& [id, island] : islands_) {
    island->SetShare(client, share);
    dirty_.push_back(id);
  }
  Pump();
}

int64_t Scheduler::WakeAt() const {
  int64_t first = IslandScheduler::kNever;
  for (const auto& [id, island] : islands_) first = std::min(first, island->WakeAt());
  return first;
}

void Scheduler::Advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  for (auto& [id, island] : islands_) {
    island->Advance();
    dirty_.push_back(id);
  }
  Pump();
}

std::vector<GangId> Scheduler::TakeGrants() { return std::exchange(grants_, {}); }

std::vector<GangId> Scheduler::TakeLost() { return std::exchange(lost_, {}); }

bool Scheduler::IsWaiting(GangId gang) const {
  auto it = records_.find(gang);
  return it != records_.end() && !it->second.granted;
}

}  // namespace pw::gang
