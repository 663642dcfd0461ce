#include "pathways/controller/slices/slices.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {
namespace {

using resource::Slice;

// The first slot of pools that are made before the sessions of the controller before are back with theirs.
constexpr int kFirstSlotWhileHeld = 1 << 14;
constexpr int kSmallestPool = 64;
constexpr int kMostBeyondTheCluster = 4096;

MemoryInfo MakeMemory(MemoryId id, DeviceId device, const resource::MemoryDescription& of) {
  return {id,
          of.kind,
          of.kind_id,
          {device},
          absl::StrCat("Memory(id=", id.v, ", kind=", of.kind, ", device=", device.v, ")"),
          absl::StrCat("MEMORY_SPACE_", id.v)};
}

// A virtual device looks like others of its kind, without a place: for jax all of them are in one slice, on no host.
DeviceInfo MakeDevice(DeviceId id, const resource::Device& like, const std::string& platform) {
  DeviceInfo info;
  info.id = id;
  info.local_device_id = id.v;
  info.platform_name = platform;
  info.kind = like.description.kind;
  info.debug_string = info.to_string = absl::StrCat("VirtualDevice(id=", id.v, ")");
  info.int_attributes["slice_index"] = 0;
  if (info.kind == resource::kCpuDeviceKind) info.int_attributes["colocation_id"] = id.v;
  return info;
}

absl::Status Released(SliceId slice, const std::vector<DeviceId>& devices) {
  return absl::FailedPreconditionError(absl::StrCat(ToString(slice), " was released, and the arrays on its ",
                                                    devices.size() == 1 ? "device " : "devices ", buffers::DeviceNumbers(devices),
                                                    " with it: add a slice and use its devices"));
}

}  // namespace

Slices::Slices(Fabric* fabric, int virtual_devices, Timers* timers, Executor* strand,
               std::function<SessionImpl*(SessionId)> find_session)
    : fabric_(fabric),
      virtual_devices_(virtual_devices),
      timers_(timers),
      strand_(strand),
      find_session_(std::move(find_session)) {}

int Slices::PoolSize(size_t devices) const {
  const int n = static_cast<int>(std::min<size_t>(devices, kLargestPool / 4));
  if (virtual_devices_ > 0) return std::min<int>(virtual_devices_, kLargestPool);
  return std::max(kSmallestPool, std::min(4 * n, n + kMostBeyondTheCluster));
}

std::unique_ptr<Slices::Pool> Slices::MakePool() const {
  auto pool = std::make_unique<Pool>();
  std::set<int> taken;
  for (const auto& [session, other] : pools_) taken.insert(other->slot);
  if (held_) pool->slot = kFirstSlotWhileHeld;
  while (taken.contains(pool->slot)) ++pool->slot;
  pool->first = DeviceId(resource::kFirstVirtualDevice.v + pool->slot * kPoolIds);
  const resource::Topology& topology = fabric_->topology();
  std::map<std::string, std::vector<DeviceId>> kinds;
  for (DeviceId id : topology.devices()) kinds[topology.FindDevice(id)->description.kind].push_back(id);
  auto shown = std::make_shared<SpareDevices>();
  int next_memory = resource::kFirstVirtualDevice.v;  // only one client sees these ids
  for (const auto& [kind, devices] : kinds) {
    const resource::Device& like = *topology.FindDevice(devices.front());
    for (int i = PoolSize(devices.size()); i > 0 && pool->spares.size() < kLargestPool; --i) {
      const DeviceId id(pool->first.v + static_cast<int>(pool->spares.size()));
      pool->spares.push_back({kind, DeviceId(), false, false});
      shown->devices.push_back(MakeDevice(id, like, topology.FindHost(like.host)->platform_name));
      for (const auto& memory : like.description.memories) {
        shown->devices.back().memories.push_back(MemoryId(next_memory));
        shown->memories.push_back(MakeMemory(MemoryId(next_memory++), id, memory));
      }
    }
  }
  pool->shown = std::move(shown);
  return pool;
}

Slices::Pool& Slices::PoolOf(SessionId session) {
  auto it = pools_.find(session);
  return it == pools_.end() ? AddPool(session, MakePool()) : *it->second;
}

Slices::Pool& Slices::AddPool(SessionId session, std::unique_ptr<Pool> made) {
  Pool& pool = *pools_.insert_or_assign(session, std::move(made)).first->second;
  if (SessionImpl* of = find_session_(session)) of->SetVirtualDevices(pool.first, static_cast<int>(pool.spares.size()));
  return pool;
}

std::shared_ptr<const SpareDevices> Slices::Spares(SessionId session) { return PoolOf(session).shown; }

// Chooses a virtual device: one that was never used, else one that was bound to this physical device before, because programs
// compiled for it are still right. Null if there is none.
Slices::Spare* Slices::Choose(Pool& pool, const std::string& kind, DeviceId physical) {
  Spare* again = nullptr;
  for (Spare& spare : pool.spares) {
    if (spare.bound || spare.kind != kind) continue;
    if (!spare.used) return &spare;
    if (spare.physical == physical && again == nullptr) again = &spare;
  }
  return again;
}

absl::Status Slices::Bind(const Slice& slice) {
  Pool& pool = PoolOf(slice.owner);
  std::vector<DeviceId>& devices = bound_[slice.id];
  for (DeviceId physical : slice.devices) {
    const std::string& kind = fabric_->topology().FindDevice(physical)->description.kind;
    Spare* spare = Choose(pool, kind, physical);
    if (spare == nullptr) {
      Unbind(slice.owner, std::exchange(devices, {}));
      bound_.erase(slice.id);
      return absl::ResourceExhaustedError(absl::StrCat(
          "this client has no virtual device of kind ", kind, " left for ", slice.devices.size(), " of a slice: all of the ",
          pool.spares.size(),
          " have been in use. Release slices that are not needed, or start the controller with a larger --virtual-devices"));
    }
    spare->physical = physical;
    spare->bound = spare->used = true;
    const DeviceId id(pool.first.v + static_cast<int>(spare - pool.spares.data()));
    fabric_->topology().Bind(id, physical);
    fabric_->devices().ForgetGone(id, 1);
    devices.push_back(id);
  }
  return absl::OkStatus();
}

void Slices::Unbind(SessionId session, const std::vector<DeviceId>& devices) {
  Pool& pool = PoolOf(session);
  for (DeviceId device : devices) {
    SpareOf(pool, device).bound = false;
    fabric_->topology().Unbind(device);
  }
}

absl::StatusOr<SliceState> Slices::Add(SessionId session, const resource::SliceRequest& request) {
  if (std::string wrong = resource::Malformed(request); !wrong.empty()) return absl::InvalidArgumentError(wrong);
  if (request.beside.has_value()) {
    const Slice* beside = table_.Find(*request.beside);
    if (beside != nullptr && beside->owner != session)
      return absl::InvalidArgumentError(absl::StrCat(ToString(*request.beside), " is another client's"));
  }
  const auto [id, answer] = table_.Add(session, request);
  if (const auto* infeasible = std::get_if<resource::Infeasible>(&answer)) {
    SliceState state;
    state.slice = id;
    state.what = SliceState::What::kRefused;
    state.text = infeasible->why;
    return state;
  }
  if (std::holds_alternative<resource::MustWait>(answer)) {
    waiting_[id] = {session, request};
  } else if (absl::Status status = Bind(*table_.Find(id)); !status.ok()) {
    Learn(table_.Release(id));
    return status;
  }
  return StateOf(session, id);
}

void Slices::Learn(const resource::Outcomes& outcomes) {
  for (const resource::Outcome& outcome : outcomes) {
    auto it = waiting_.find(outcome.slice);
    if (it == waiting_.end()) continue;
    const SessionId session = it->second.first;
    waiting_.erase(it);
    if (const auto* infeasible = std::get_if<resource::Infeasible>(&outcome.answer)) {
      refused_[outcome.slice] = {session, infeasible->why};
    } else if (absl::Status status = Bind(*table_.Find(outcome.slice)); !status.ok()) {
      refused_[outcome.slice] = {session, std::string(status.message())};
      const resource::Outcomes more = table_.Release(outcome.slice);
      AnswerWaiters(outcome.slice);
      Learn(more);
      continue;
    }
    AnswerWaiters(outcome.slice);
  }
}

// A restored slice has no known island until one of its hosts is back.
std::string Slices::IslandOf(const Slice& slice) const {
  const resource::Island* const island = fabric_->topology().FindIsland(slice.island);
  return island == nullptr ? "" : island->name;
}

void Slices::TellMoved(SliceId id) const {
  const Slice* const slice = table_.Find(id);
  SessionImpl* const of = slice == nullptr ? nullptr : find_session_(slice->owner);
  if (of == nullptr) return;
  if (const absl::StatusOr<SliceState> state = StateOf(slice->owner, id); state.ok()) of->OnSliceMoved(*state);
}

absl::StatusOr<SliceState> Slices::StateOf(SessionId session, SliceId id) const {
  SliceState state;
  state.slice = id;
  if (const Slice* slice = table_.Find(id); slice != nullptr && slice->owner == session) {
    state.what = SliceState::What::kPlaced;
    state.devices = bound_.at(id);
    state.physical = slice->devices;
    state.island = IslandOf(*slice);
    state.epoch = slice->epoch;
    for (DeviceId device : slice->devices) {
      const resource::Device* there = fabric_->topology().FindDevice(device);
      state.hosts.push_back(there == nullptr ? "" : fabric_->topology().FindHost(there->host)->name);
    }
    return state;
  }
  if (auto it = refused_.find(id); it != refused_.end() && it->second.first == session) {
    state.what = SliceState::What::kRefused;
    state.text = it->second.second;
    return state;
  }
  auto it = waiting_.find(id);
  if (it == waiting_.end() || it->second.first != session)
    return absl::NotFoundError(absl::StrCat("this client has no ", ToString(id), ": it was released"));
  const auto later = std::get<resource::MustWait>(table_.StateOf(id));
  state.position = later.position;
  state.text = later.waits_for;
  return state;
}

void Slices::Await(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) {
  const uint64_t key = next_waiter_++;
  waiters_.insert({key, Waiter{session, slice, std::move(done)}});
  if (!waiting_.contains(slice)) return Answer(key);
  timers_->After(limit, strand_, [this, key, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) Answer(key);
  });
}

void Slices::AnswerWaiters(SliceId slice) {
  std::vector<uint64_t> keys;
  for (const auto& [key, waiter] : waiters_) {
    if (waiter.slice == slice) keys.push_back(key);
  }
  for (uint64_t key : keys) Answer(key);
}

void Slices::Answer(uint64_t key) {
  auto it = waiters_.find(key);
  if (it == waiters_.end()) return;
  Waiter waiter = std::move(it->second);
  waiters_.erase(it);
  fabric_->Post([done = std::move(waiter.done), state = StateOf(waiter.session, waiter.slice)]() mutable {
    std::move(done)(std::move(state));
  });
}

absl::Status Slices::Release(SessionId session, SliceId id) {
  PW_RETURN_IF_ERROR(StateOf(session, id).status());
  waiting_.erase(id);
  refused_.erase(id);
  if (auto it = bound_.find(id); it != bound_.end()) {
    const std::vector<DeviceId> devices = std::move(it->second);
    bound_.erase(it);
    const absl::Status released = Released(id, devices);
    if (SessionImpl* of = find_session_(session)) of->OnSliceReleased({devices.begin(), devices.end()}, released);
    Unbind(session, devices);
    fabric_->devices().SetGone(devices, released);
  }
  const resource::Outcomes outcomes = table_.Release(id);
  AnswerWaiters(id);
  Learn(outcomes);
  return absl::OkStatus();
}

void Slices::EndSession(SessionId session) {
  for (const Slice* slice : table_.OfOwner(session)) {
    Unbind(session, bound_[slice->id]);
    bound_.erase(slice->id);
  }
  std::erase_if(waiting_, [&](const auto& one) { return one.second.first == session; });
  std::erase_if(refused_, [&](const auto& one) { return one.second.first == session; });
  std::vector<uint64_t> keys;
  for (const auto& [key, waiter] : waiters_) {
    if (waiter.session == session) keys.push_back(key);
  }
  for (uint64_t key : keys) Answer(key);
  const resource::Outcomes outcomes = table_.ReleaseOwner(session);
  if (auto it = pools_.find(session); it != pools_.end()) {
    fabric_->devices().ForgetGone(it->second->first, kPoolIds);
    pools_.erase(it);
  }
  Learn(outcomes);
}

void Slices::TopologyChanged() {
  const resource::Outcomes outcomes = table_.SetTopology(fabric_->topology());
  for (const auto& [id, devices] : bound_) BindAgain(*table_.Find(id), devices);
  Learn(outcomes);
}

// Binds again the slice's virtual devices whose host was lost and whose seat another host has taken.
void Slices::BindAgain(const Slice& slice, const std::vector<DeviceId>& devices) {
  for (size_t i = 0; i < slice.devices.size(); ++i) {
    const resource::Topology& topology = fabric_->topology();
    const resource::Device* const there = topology.FindDevice(slice.devices[i]);
    if (topology.FindDevice(devices[i]) != nullptr || there == nullptr) continue;
    // Not so if the host of a restored slice has not come back, and another one has got its number.
    if (there->island != slice.island || there->description.kind != SpareOf(PoolOf(slice.owner), devices[i]).kind) continue;
    fabric_->topology().Bind(devices[i], slice.devices[i]);
    fabric_->devices().ForgetGone(devices[i], 1);
  }
}

std::vector<SliceStatus> Slices::Status() const {
  std::vector<SliceStatus> all;
  for (const auto& [id, slice] : table_.slices()) {
    all.push_back({id, slice.owner,
                   slice.broken            ? "broken"
                   : slice.devices.empty() ? "suspended"
                                           : "placed",
                   slice.request.count, slice.request.exclusive, IslandOf(slice), bound_.at(id), slice.devices, slice.epoch, 0,
                   ""});
  }
  for (const auto& [id, waiting] : waiting_) {
    const auto later = std::get<resource::MustWait>(table_.StateOf(id));
    all.push_back({id,
                   waiting.first,
                   "waiting",
                   waiting.second.count,
                   waiting.second.exclusive,
                   "",
                   {},
                   {},
                   0,
                   later.position,
                   later.waits_for});
  }
  return all;
}

}  // namespace pw::controller
