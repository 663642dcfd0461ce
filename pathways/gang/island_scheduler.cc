#include "pathways/gang/island_scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "pathways/base/sorted_keys.h"

namespace pw::gang {

IslandScheduler::IslandScheduler(const Options& options, std::unique_ptr<Policy> policy, const CostModel* costs,
                                 const int64_t* now_ns)
    : window_ns_(options.window_ns),
      window_gangs_(std::max(1, options.window_gangs)),
      lead_ns_(options.lead_ns),
      policy_(std::move(policy)),
      costs_(costs),
      now_ns_(now_ns) {}

LaneId IslandScheduler::Lane(absl::Span<const DeviceId> devices) {
  const LaneId lane = partition_.Lane(devices, [&](Partition::Atom from, Partition::Atom to) {
    while (atoms_.size() <= to) atoms_.push_back({.waiting = MakeOrdered<std::pair<Key, LaneId>>()});
    atoms_[to] = atoms_[from];
  });
  while (atoms_.size() < partition_.atoms()) atoms_.push_back({.waiting = MakeOrdered<std::pair<Key, LaneId>>()});
  if (lane.v == lanes_.size()) {
    LaneState& state = lanes_.emplace_back();
    state.heads = MakeOrdered<std::pair<Key, ClientId>>();
    state.lost = HasLost(lane);
  }
  return lane;
}

IslandScheduler::Key IslandScheduler::FullKey(ClientId client, Key key) const {
  key.rank += policy_->ClientRank(client);
  return key;
}

int64_t IslandScheduler::DeviceTime(const Item& item, int64_t ns) const {
  return ns * static_cast<int64_t>(partition_.devices(item.lane).size());
}

void IslandScheduler::Enqueue(const Work& work) {
  const Key key{policy_->GangRank(work.id.v, work.submitted_ns), !work.inputs_complete, work.id.v};
  const Item item{work.client, work.lane, work.executable, key};
  Client& client = clients_[work.client];
  if (client.gangs++ == 0) {
    policy_->OnActive(work.client);  // it has no queues yet, so none needs a new rank
    known_.insert(work.client);
  }
  Queue(items_.insert({work.id, item}).first->second);
}

void IslandScheduler::Queue(const Item& item) {
  LaneState& lane = lanes_[item.lane.v];
  auto [it, is_new] = lane.queues.try_emplace(item.client, CountedLess{comparisons_.get()});
  Ordered<Key>& queue = it->second;
  if (is_new) {
    clients_[item.client].lanes.push_back(item.lane);
  } else if (item.key < *queue.begin()) {
    lane.heads.erase({FullKey(item.client, *queue.begin()), item.client});
  } else {
    queue.insert(item.key);
    return;
  }
  queue.insert(item.key);
  lane.heads.insert({FullKey(item.client, item.key), item.client});
  Update(item.lane);
}

void IslandScheduler::Unqueue(const Item& item) {
  LaneState& lane = lanes_[item.lane.v];
  Ordered<Key>& queue = lane.queues.at(item.client);
  const bool was_head = *queue.begin() == item.key;
  if (was_head) lane.heads.erase({FullKey(item.client, item.key), item.client});
  queue.erase(item.key);
  if (!queue.empty()) {
    if (was_head) lane.heads.insert({FullKey(item.client, *queue.begin()), item.client});
  } else {
    lane.queues.erase(item.client);
    std::erase(clients_[item.client].lanes, item.lane);
  }
  if (was_head) Update(item.lane);
}

// Calls `change`, which may change the client's rank in the policy. If it does, moves the client's heads to their new places.
void IslandScheduler::Rerank(ClientId id, absl::FunctionRef<bool()> change) {
  auto client = clients_.find(id);
  const int64_t before = policy_->ClientRank(id);
  if (!change() || client == clients_.end()) return;
  const int64_t after = policy_->ClientRank(id);
  for (LaneId lane_id : client->second.lanes) {
    LaneState& lane = lanes_[lane_id.v];
    Key key = *lane.queues.at(id).begin();
    const int64_t own = key.rank;
    key.rank = own + before;
    lane.heads.erase({key, id});
    key.rank = own + after;
    lane.heads.insert({key, id});
    Update(lane_id);
  }
}

// Called when the lane's first gang may have changed. Registers the new first gang with the lane's atoms, and marks the lanes that
// now come first there as dirty.
void IslandScheduler::Update(LaneId id) {
  LaneState& lane = lanes_[id.v];
  const bool wanted = lane.held != GangId() || !lane.heads.empty();
  Key first;
  if (lane.held != GangId())
    first.rank = std::numeric_limits<int64_t>::min();
  else if (wanted)
    first = lane.heads.begin()->first;
  if (wanted != lane.registered || first != lane.first) {
    for (Partition::Atom atom : partition_.atoms_of(id)) {
      if (lane.registered) atoms_[atom].waiting.erase({lane.first, id});
      if (wanted) atoms_[atom].waiting.insert({first, id});
    }
    lane.registered = wanted;
    lane.first = first;
  }
  WakeFirst(id);
}

void IslandScheduler::WakeFirst(LaneId id) {
  for (Partition::Atom atom : partition_.atoms_of(id)) {
    if (atoms_[atom].waiting.empty()) continue;
    MarkDirty(atoms_[atom].waiting.begin()->second);
  }
}

void IslandScheduler::MarkDirty(LaneId lane) {
  if (!std::exchange(lanes_[lane.v].dirty, true)) dirty_.push_back(lane);
}

void IslandScheduler::Advance() {
  if (*now_ns_ < wake_ns_) return;
  wake_ns_ = kNever;
  for (LaneId lane : std::exchange(early_, {})) {
    lanes_[lane.v].early = false;
    MarkDirty(lane);
  }
}

void IslandScheduler::Forget(ClientId client) {
  known_.erase(client);
  policy_->Forget(client);
}

bool IslandScheduler::IsFirst(LaneId id) const {
  const absl::Span<const Partition::Atom> atoms = partition_.atoms_of(id);
  return std::all_of(atoms.begin(), atoms.end(),
                     [&](Partition::Atom atom) { return atoms_[atom].waiting.begin()->second == id; });
}

// Returns the time from which the lane's devices have room for a gang of this length. kNever: not before the end of another gang.
int64_t IslandScheduler::RoomAt(LaneId id, int64_t predicted_ns) const {
  const bool shared = known_.size() > 1;
  int64_t at = 0;
  for (Partition::Atom atom : partition_.atoms_of(id)) {
    const AtomState& state = atoms_[atom];
    if (state.outstanding_gangs == 0 || state.outstanding_ns + predicted_ns <= window_ns_) continue;
    if (state.outstanding_gangs >= window_gangs_) return kNever;
    if (shared) at = std::max(at, state.free_ns - lead_ns_);
  }
  return at;
}

void IslandScheduler::Grant(Item& item) {
  item.state = State::kGranted;
  item.predicted_ns = costs_->Predict(item.executable);
  for (Partition::Atom atom : partition_.atoms_of(item.lane)) {
    AtomState& state = atoms_[atom];
    state.outstanding_ns += item.predicted_ns;
    ++state.outstanding_gangs;
    state.free_ns = std::max(state.free_ns, *now_ns_) + item.predicted_ns;
  }
  Rerank(item.client, [&] { return policy_->OnGrant(item.client, DeviceTime(item, item.predicted_ns)); });
}

void IslandScheduler::ReturnRoom(const Item& item) {
  for (Partition::Atom atom : partition_.atoms_of(item.lane)) {
    AtomState& state = atoms_[atom];
    state.outstanding_ns -= item.predicted_ns;
    --state.outstanding_gangs;
    state.free_ns = *now_ns_ + state.outstanding_ns;
  }
  WakeFirst(item.lane);
}

void IslandScheduler::Erase(absl::flat_hash_map<GangId, Item>::iterator it) {
  auto client = clients_.find(it->second.client);
  if (--client->second.gangs == 0) clients_.erase(client);
  items_.erase(it);
}

void IslandScheduler::SetInputsComplete(GangId gang) {
  auto it = items_.find(gang);
  if (it == items_.end() || it->second.state != State::kQueued || !it->second.key.incomplete) return;
  Unqueue(it->second);
  it->second.key.incomplete = false;
  Queue(it->second);
}

void IslandScheduler::Commit(GangId gang) {
  auto it = items_.find(gang);
  if (it == items_.end() || it->second.state != State::kHeld) return;
  lanes_[it->second.lane.v].held = GangId();
  Grant(it->second);
  Update(it->second.lane);
}

void IslandScheduler::Finish(GangId gang, int64_t measured_ns) {
  auto it = items_.find(gang);
  if (it == items_.end()) return;
  if (it->second.state != State::kGranted) return Remove(gang);
  const Item item = it->second;
  Rerank(item.client,
         [&] { return policy_->OnDone(item.client, DeviceTime(item, item.predicted_ns), DeviceTime(item, measured_ns)); });
  ReturnRoom(item);
  Erase(it);
}

void IslandScheduler::Remove(GangId gang) {
  auto it = items_.find(gang);
  if (it == items_.end()) return;
  const Item item = it->second;
  switch (item.state) {
    case State::kQueued:
      Unqueue(item);
      break;
    case State::kHeld:
      lanes_[item.lane.v].held = GangId();
      Update(item.lane);
      break;
    case State::kGranted:
      return Finish(gang, 0);
  }
  Erase(it);
}

bool IslandScheduler::HasLost(LaneId lane) const {
  const std::vector<DeviceId>& devices = partition_.devices(lane);
  return !lost_.empty() &&
         std::any_of(devices.begin(), devices.end(), [this](DeviceId device) { return lost_.contains(device); });
}

void IslandScheduler::UpdateLost() {
  for (uint32_t i = 0; i < lanes_.size(); ++i) lanes_[i].lost = HasLost(LaneId(i));
}

void IslandScheduler::RegainDevices(absl::Span<const DeviceId> devices) {
  for (DeviceId device : devices) lost_.erase(device);
  UpdateLost();
}

std::vector<GangId> IslandScheduler::LoseDevices(absl::Span<const DeviceId> devices) {
  lost_.insert(devices.begin(), devices.end());
  UpdateLost();
  std::vector<GangId> lost = SortedKeysWhere(items_, [this](const Item& item) { return lanes_[item.lane.v].lost; });
  for (GangId id : lost) Remove(id);
  return lost;
}

void IslandScheduler::SetShare(ClientId client, const Share& share) {
  Rerank(client, [&] { return policy_->SetShare(client, share); });
}

void IslandScheduler::DecideLane(LaneId id, Decide decide) {
  LaneState& lane = lanes_[id.v];
  while (lane.held == GangId() && !lane.heads.empty() && IsFirst(id)) {
    const GangId gang(lane.heads.begin()->first.sequence);
    Item& item = items_.at(gang);
    if (const int64_t at = RoomAt(id, costs_->Predict(item.executable)); at > *now_ns_) {
      if (at == kNever) return;
      if (!std::exchange(lane.early, true)) early_.push_back(id);
      wake_ns_ = std::min(wake_ns_, at);
      return;
    }
    const Decision decision = decide(gang);
    Unqueue(item);
    if (decision == Decision::kHold) {
      item.state = State::kHeld;
      lane.held = gang;
      return Update(id);
    }
    Grant(item);
  }
}

void IslandScheduler::Pump(Decide decide) {
  while (!dirty_.empty()) {
    const LaneId lane = dirty_.front();
    dirty_.pop_front();
    lanes_[lane.v].dirty = false;
    DecideLane(lane, decide);
  }
}

bool IslandScheduler::Overlap(LaneId a, LaneId b) const {
  const absl::Span<const Partition::Atom> of_a = partition_.atoms_of(a), of_b = partition_.atoms_of(b);
  return std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) != of_a.end();
}

int64_t IslandScheduler::outstanding_ns(LaneId lane) const {
  int64_t most = 0;
  for (Partition::Atom atom : partition_.atoms_of(lane)) most = std::max(most, atoms_[atom].outstanding_ns);
  return most;
}

int IslandScheduler::outstanding_gangs(LaneId lane) const {
  int most = 0;
  for (Partition::Atom atom : partition_.atoms_of(lane)) most = std::max(most, atoms_[atom].outstanding_gangs);
  return most;
}

}  // namespace pw::gang
