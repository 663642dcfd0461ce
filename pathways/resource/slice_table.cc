#include "pathways/resource/slice_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pw::resource {
namespace {

Candidate MakeCandidate(const Topology& topology, const Device& device) {
  Candidate c;
  c.id = device.id;
  c.host = device.host;
  c.island = device.island;
  c.island_name = topology.FindIsland(device.island)->name;
  c.platform = topology.FindHost(device.host)->platform_name;
  c.kind = device.description.kind;
  auto coords = device.description.attributes.lists.find("coords");
  if (coords != device.description.attributes.lists.end()) c.coords = coords->second;
  c.memory_limit = device.description.memory_limit_bytes;
  return c;
}

}  // namespace

Candidate* SliceTable::Find(DeviceId device) {
  auto it =
      std::lower_bound(candidates_.begin(), candidates_.end(), device, [](const Candidate& c, DeviceId id) { return c.id < id; });
  return it != candidates_.end() && it->id == device ? &*it : nullptr;
}
const Candidate* SliceTable::FindCandidate(DeviceId device) const { return const_cast<SliceTable*>(this)->Find(device); }

const Slice* SliceTable::Find(SliceId slice) const {
  auto it = slices_.find(slice);
  return it == slices_.end() ? nullptr : &it->second;
}

std::vector<const Slice*> SliceTable::OfOwner(SessionId owner) const {
  std::vector<const Slice*> found;
  for (const auto& [id, slice] : slices_) {
    if (slice.owner == owner) found.push_back(&slice);
  }
  return found;
}

int64_t SliceTable::DevicesOf(SessionId owner) const {
  int64_t sum = 0;
  for (const Slice* slice : OfOwner(owner)) sum += slice->leaves ? 0 : slice->request.count;
  return sum;
}

std::vector<const Slice*> SliceTable::OnHost(HostId host) const {
  std::vector<const Slice*> found;
  for (const auto& [id, slice] : slices_) {
    const bool there = std::any_of(slice.devices.begin(), slice.devices.end(), [&](DeviceId device) {
      const Candidate* c = FindCandidate(device);
      return c != nullptr && c->host == host;
    });
    if (there) found.push_back(&slice);
  }
  return found;
}

std::vector<SliceId> SliceTable::queue() const {
  std::vector<SliceId> ids;
  for (const Waiting& waiting : queue_) ids.push_back(waiting.slice);
  return ids;
}

std::optional<IslandId> SliceTable::Beside(const SliceRequest& request) const {
  if (!request.beside.has_value()) return std::nullopt;
  const Slice* other = Find(*request.beside);
  return other == nullptr ? std::nullopt : std::optional(other->island);
}

std::optional<std::vector<DeviceId>> SliceTable::TryPlace(const SliceRequest& request, const std::set<IslandId>& closed) const {
  if (held_) return std::nullopt;
  return Place(candidates_, {request, Against::kNow, Beside(request), [&](IslandId island) { return !closed.contains(island); }});
}

std::string SliceTable::WhyInfeasible(const SliceRequest& request) const {
  if (BesideIsGone(request))
    return absl::StrCat(ToString(*request.beside), ", beside which it shall lie, does not live (any more)");
  return NearestFit(candidates_, request, Beside(request));
}

std::pair<SliceId, Answer> SliceTable::Add(SessionId owner, SliceRequest request) {
  const SliceId id(next_id_++);
  Waiting waiting{id, owner, std::move(request), {}};
  if (!BesideIsGone(waiting.request)) waiting.islands = FittingIslands(candidates_, waiting.request, Beside(waiting.request));
  if (waiting.islands.empty()) return {id, Infeasible{WhyInfeasible(waiting.request)}};
  QuotaRoom room = Room(owner, waiting.request);
  if (room.what == QuotaRoom::What::kNever) return {id, Infeasible{std::move(room.why)}};
  if (room.what == QuotaRoom::What::kLater) {
    waiting.over_quota = std::move(room.why);
    queue_.push_back(std::move(waiting));
    return {id, Describe(queue_.size() - 1)};
  }
  std::set<IslandId> closed;
  for (const Waiting& older : queue_) {
    if (older.over_quota.empty()) closed.insert(older.islands.begin(), older.islands.end());
  }
  if (auto devices = TryPlace(waiting.request, closed)) {
    Enter(id, owner, std::move(waiting.request), *std::move(devices));
    return {id, Placed{}};
  }
  queue_.push_back(std::move(waiting));
  return {id, Describe(queue_.size() - 1)};
}

Answer SliceTable::StateOf(SliceId slice) const {
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i].slice == slice) return Describe(i);
  }
  return Placed{};
}

MustWait SliceTable::Describe(size_t index) const {
  const Waiting& waiting = queue_[index];
  if (held_) return {static_cast<int>(index) + 1, "programs of the controller before, which may come back with their slices"};
  if (!waiting.over_quota.empty()) return {static_cast<int>(index) + 1, waiting.over_quota};
  std::vector<std::string> holders;
  for (const auto& [id, slice] : slices_) {
    const bool bars = waiting.request.exclusive || slice.request.exclusive ||
                      (waiting.request.memory_per_device > 0 && slice.request.memory_per_device > 0);
    if (bars && waiting.islands.contains(slice.island)) holders.push_back(absl::StrCat(id.v, " of client ", slice.owner.v));
  }
  if (holders.size() > 6) holders.resize(6), holders.push_back("others");
  std::set<std::string> names;
  for (const Candidate& c : candidates_) {
    if (waiting.islands.contains(c.island)) names.insert(c.island_name);
  }
  std::string text =
      absl::StrCat(waiting.request.count, waiting.request.exclusive ? " exclusive" : "",
                   waiting.request.count == 1 ? " device" : " devices", " in island ", absl::StrJoin(names, " or "));
  std::set<SliceId> ahead;
  for (size_t i = 0; i < index; ++i) {
    if (!queue_[i].over_quota.empty()) continue;
    const std::set<IslandId>& wanted = queue_[i].islands;
    const bool same =
        std::any_of(wanted.begin(), wanted.end(), [&](IslandId island) { return waiting.islands.contains(island); });
    if (same) ahead.insert(queue_[i].slice);
  }
  if (!holders.empty()) absl::StrAppend(&text, ", held by slice ", absl::StrJoin(holders, ", "));
  if (ahead.size() == 1) absl::StrAppend(&text, ", after a request that came earlier");
  if (ahead.size() > 1) absl::StrAppend(&text, ", after ", ahead.size(), " requests that came earlier");
  return {static_cast<int>(index) + 1, std::move(text)};
}

void SliceTable::Occupy(const std::vector<DeviceId>& devices, const SliceRequest& request, int sign) {
  for (DeviceId device : devices) {
    Candidate* c = Find(device);
    if (c == nullptr) continue;  // its host is gone
    c->load += sign;
    c->memory_reserved += sign * request.memory_per_device;
    if (request.exclusive) c->exclusive += sign;
  }
}

void SliceTable::Enter(SliceId id, SessionId owner, SliceRequest request, std::vector<DeviceId> devices) {
  Occupy(devices, request, +1);
  const IslandId island = Find(devices.front())->island;
  slices_[id] = Slice{id, owner, std::move(request), island, std::move(devices), 1, {}};
}

bool SliceTable::IsTaken(SliceId id) const {
  return slices_.contains(id) || std::any_of(queue_.begin(), queue_.end(), [&](const Waiting& w) { return w.slice == id; });
}

std::string SliceTable::Conflict(const Slice& slice) const {
  for (DeviceId device : slice.devices) {
    const Candidate* c = FindCandidate(device);
    if (c == nullptr || (c->exclusive == 0 && (!slice.request.exclusive || c->load == 0))) continue;
    return absl::StrCat(ToString(device), " of ", ToString(slice.id), " is in use by a slice of another client, and ",
                        slice.request.exclusive ? "this one" : "that one", " is exclusive");
  }
  QuotaRoom room = Room(slice.owner, slice.request);
  return room.what == QuotaRoom::What::kNow ? "" : absl::StrCat("there is no room for ", ToString(slice.id), ": ", room.why);
}

std::string SliceTable::Restore(Slice slice) {
  if (IsTaken(slice.id)) return absl::StrCat("there is another ", ToString(slice.id));
  if (!slice.leaves) {
    if (std::string conflict = Conflict(slice); !conflict.empty()) return conflict;
    Occupy(slice.devices, slice.request, +1);
  }
  for (DeviceId device : slice.devices) {
    const Candidate* there = FindCandidate(device);
    slice.broken |= there == nullptr;
    if (there != nullptr) slice.island = there->island;
  }
  SkipNumbers(slice.id);
  const SliceId id = slice.id;
  slices_[id] = std::move(slice);
  return "";
}

bool SliceTable::RestoreWaiting(SliceId id, SessionId owner, SliceRequest request) {
  if (IsTaken(id)) return false;
  SkipNumbers(id);
  Waiting waiting{id, owner, std::move(request), {}};
  if (!BesideIsGone(waiting.request)) waiting.islands = FittingIslands(candidates_, waiting.request, Beside(waiting.request));
  const auto later = std::find_if(queue_.begin(), queue_.end(), [&](const Waiting& other) { return id < other.slice; });
  queue_.insert(later, std::move(waiting));
  return true;
}

void SliceTable::Forget(SliceId slice) {
  auto it = slices_.find(slice);
  if (it != slices_.end()) {
    if (!it->second.leaves) Occupy(it->second.devices, it->second.request, -1);
    Occupy(it->second.next, it->second.request, -1);
    slices_.erase(it);
  }
  std::erase_if(queue_, [&](const Waiting& waiting) { return waiting.slice == slice; });
}

Outcomes SliceTable::Release(SliceId slice) {
  Forget(slice);
  return PlaceWaiting();
}

Outcomes SliceTable::ReleaseOwner(SessionId owner) {
  for (const Slice* slice : OfOwner(owner)) Forget(slice->id);
  std::erase_if(queue_, [&](const Waiting& waiting) { return waiting.owner == owner; });
  return PlaceWaiting();
}

Outcomes SliceTable::PlaceWaiting() {
  Outcomes outcomes;
  std::vector<Waiting> still;
  std::set<IslandId> closed;
  for (Waiting& waiting : std::exchange(queue_, {})) {
    waiting.islands.clear();
    if (!BesideIsGone(waiting.request)) waiting.islands = FittingIslands(candidates_, waiting.request, Beside(waiting.request));
    QuotaRoom room = Room(waiting.owner, waiting.request);
    waiting.over_quota.clear();
    if (waiting.islands.empty()) {
      outcomes.emplace_back(waiting.slice, Infeasible{WhyInfeasible(waiting.request)});
    } else if (room.what == QuotaRoom::What::kNever) {
      outcomes.emplace_back(waiting.slice, Infeasible{std::move(room.why)});
    } else if (room.what == QuotaRoom::What::kLater) {
      waiting.over_quota = std::move(room.why);
      still.push_back(std::move(waiting));
    } else if (auto devices = TryPlace(waiting.request, closed)) {
      Enter(waiting.slice, waiting.owner, std::move(waiting.request), *std::move(devices));
      outcomes.emplace_back(waiting.slice, Placed{});
    } else {
      closed.insert(waiting.islands.begin(), waiting.islands.end());
      still.push_back(std::move(waiting));
    }
  }
  queue_ = std::move(still);
  return outcomes;
}

Outcomes SliceTable::SetTopology(const Topology& topology) {
  candidates_.clear();
  std::erase_if(drained_, [&](HostId host) { return topology.FindHost(host) == nullptr; });
  for (DeviceId id : topology.devices()) {
    candidates_.push_back(MakeCandidate(topology, *topology.FindDevice(id)));
    candidates_.back().drained = drained_.contains(candidates_.back().host);
  }
  auto gone = [&](DeviceId device) { return FindCandidate(device) == nullptr; };
  for (auto& [id, slice] : slices_) {
    if (std::any_of(slice.next.begin(), slice.next.end(), gone)) slice.next.clear();
    slice.broken = std::any_of(slice.devices.begin(), slice.devices.end(), gone);
    const auto there = std::find_if_not(slice.devices.begin(), slice.devices.end(), gone);
    if (there != slice.devices.end()) slice.island = Find(*there)->island;  // a restored one may not have known it
    if (!slice.leaves) Occupy(slice.devices, slice.request, +1);
    Occupy(slice.next, slice.request, +1);
  }
  return PlaceWaiting();
}

Outcomes SliceTable::SetDrained(HostId host, bool drained) {
  if (drained)
    drained_.insert(host);
  else
    drained_.erase(host);
  for (Candidate& c : candidates_) {
    if (c.host == host) c.drained = drained;
  }
  return PlaceWaiting();
}

Answer SliceTable::BeginMove(SliceId id) {
  Slice& slice = slices_.at(id);
  if (slice.broken) return Infeasible{"it has lost a host"};
  SliceRequest request = slice.request;
  request.beside = std::nullopt;  // applies to the first placement only
  Occupy(slice.devices, request, -1);
  auto devices = TryPlace(request, {});
  Occupy(slice.devices, request, +1);
  if (!devices.has_value()) {
    if (FittingIslands(candidates_, request, std::nullopt).empty())
      return Infeasible{NearestFit(candidates_, request, std::nullopt)};
    return MustWait{0, "devices that other slices hold"};
  }
  slice.next = *std::move(devices);
  Occupy(slice.next, request, +1);
  return Placed{};
}

Outcomes SliceTable::EndMove(SliceId id) {
  Slice& slice = slices_.at(id);
  Occupy(slice.devices, slice.request, -1);
  slice.devices = std::exchange(slice.next, {});
  slice.island = Find(slice.devices.front())->island;
  ++slice.epoch;
  return PlaceWaiting();
}

Outcomes SliceTable::Park(SliceId id) {
  Slice& slice = slices_.at(id);
  Occupy(slice.devices, slice.request, -1);
  slice.devices.clear();
  return PlaceWaiting();
}

Outcomes SliceTable::AbortMove(SliceId id) {
  auto it = slices_.find(id);
  if (it == slices_.end()) return {};
  Slice& slice = it->second;
  Occupy(slice.next, slice.request, -1);
  slice.next.clear();
  return PlaceWaiting();
}

}  // namespace pw::resource
