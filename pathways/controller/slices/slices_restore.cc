// Takes over the slices of sessions of the controller before (session/restored_slices.h).
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/slices/slices.h"

namespace pw::controller {
namespace {

using session::RestoredSlices;

constexpr IslandId kNoIsland(UINT32_MAX);

absl::Status NotNow(const std::string& why) {
  return absl::UnavailableError(absl::StrCat("its controller has ended, and virtual slices cannot be as they were: ", why));
}

absl::Status NotBack(DeviceId device, SliceId slice) {
  return absl::DataLossError(absl::StrCat("the host of ", ToString(device), " of ", ToString(slice),
                                          " has not come back from the controller before; waiting for a host to take its seat "
                                          "(what lay there is lost)"));
}

}  // namespace

void Slices::SetHeld(bool held) {
  held_ = held;
  table_.set_held(held);
  if (!held) Learn(table_.Recheck());
}

absl::Status Slices::Restore(SessionId session, const RestoredSlices& restored) {
  table_.SkipNumbers(restored.last);
  if (restored.kinds.empty()) return absl::OkStatus();
  PW_RETURN_IF_ERROR(RestorePool(session, restored));
  for (const RestoredSlices::Slice& slice : restored.slices) PW_RETURN_IF_ERROR(RestoreOne(session, slice));
  return absl::OkStatus();
}

absl::Status Slices::RestorePool(SessionId session, const RestoredSlices& restored) {
  const int64_t offset = int64_t{restored.first.v} - resource::kFirstVirtualDevice.v;
  if (pools_.contains(session) || offset < 0 || offset % kPoolIds != 0)
    return absl::InvalidArgumentError(absl::StrCat("no virtual devices begin with ", ToString(restored.first)));
  auto pool = std::make_unique<Pool>();
  pool->slot = static_cast<int>(offset / kPoolIds);
  pool->first = restored.first;
  pool->shown = std::make_shared<const SpareDevices>();  // the client knows them
  for (const auto& [owner, other] : pools_) {
    if (other->slot == pool->slot) return NotNow(absl::StrCat("the ids of its virtual devices are those of ", ToString(owner)));
  }
  for (const RestoredSlices::Kind& kind : restored.kinds) {
    if (kind.count < 0 || pool->spares.size() + static_cast<size_t>(kind.count) > kLargestPool)
      return absl::InvalidArgumentError(absl::StrCat(kind.count, " virtual devices of kind ", kind.kind, " are too many"));
    pool->spares.resize(pool->spares.size() + static_cast<size_t>(kind.count), {kind.kind, DeviceId(), false, false});
  }
  for (const RestoredSlices::Released& released : restored.released) {
    const int64_t at = int64_t{released.device.v} - pool->first.v;
    if (at < 0 || at >= static_cast<int64_t>(pool->spares.size()))
      return absl::InvalidArgumentError(absl::StrCat(ToString(released.device), " is none of the session's virtual devices"));
    pool->spares[at].used = true;
    pool->spares[at].physical = released.physical;
    fabric_->devices().SetGone({released.device},
                               absl::FailedPreconditionError(absl::StrCat("the slice of ", ToString(released.device),
                                                                          " was released, and the arrays on its "
                                                                          "devices with it: add a slice and use its devices")));
  }
  AddPool(session, std::move(pool));
  return absl::OkStatus();
}

absl::Status Slices::RestoreOne(SessionId session, const RestoredSlices::Slice& slice) {
  const SliceId id = slice.state.slice;
  switch (slice.state.what) {
    case SliceState::What::kPlaced:
      return RestorePlaced(session, slice);
    case SliceState::What::kRefused:
      refused_[id] = {session, slice.state.text};
      return absl::OkStatus();
    case SliceState::What::kWaiting:
      if (!table_.RestoreWaiting(id, session, slice.request)) return NotNow(absl::StrCat("there is another ", ToString(id)));
      waiting_[id] = {session, slice.request};
      return absl::OkStatus();
  }
  return absl::InternalError("a slice is in no state");
}

absl::Status Slices::RestorePlaced(SessionId session, const RestoredSlices::Slice& restored) {
  const SliceState& state = restored.state;
  Pool& pool = PoolOf(session);
  const std::set<DeviceId> devices(state.devices.begin(), state.devices.end()),
      physical(state.physical.begin(), state.physical.end());
  const auto count = static_cast<size_t>(restored.request.count);
  if (state.devices.size() != count || devices.size() != count || physical.size() != count)
    return absl::InvalidArgumentError(absl::StrCat(ToString(state.slice), " has other devices than it asked for"));
  const resource::Topology& topology = fabric_->topology();
  for (size_t i = 0; i < state.devices.size(); ++i) {
    const int64_t at = int64_t{state.devices[i].v} - pool.first.v;
    const resource::Device* const there = topology.FindDevice(state.physical[i]);
    const bool ours = at >= 0 && at < static_cast<int64_t>(pool.spares.size()) && !pool.spares[at].bound;
    if (!ours || resource::IsVirtual(state.physical[i]) || (there != nullptr && there->description.kind != pool.spares[at].kind))
      return absl::InvalidArgumentError(
          absl::StrCat(ToString(state.slice), " cannot have ", ToString(state.devices[i]), " on ", ToString(state.physical[i])));
  }
  const resource::Island* const island = topology.FindIslandByName(state.island);
  Slice slice{state.slice, session, restored.request, island == nullptr ? kNoIsland : island->id, state.physical,
              state.epoch, {}};
  slice.leaves = restored.leaves;
  if (const std::string conflict = table_.Restore(std::move(slice)); !conflict.empty()) return NotNow(conflict);
  bound_[state.slice] = state.devices;
  for (size_t i = 0; i < state.devices.size(); ++i) {
    Spare& spare = SpareOf(pool, state.devices[i]);
    spare.physical = state.physical[i];
    spare.bound = spare.used = true;
    if (topology.FindDevice(state.physical[i]) == nullptr) {
      fabric_->devices().SetGone({state.devices[i]}, NotBack(state.devices[i], state.slice));
    } else {
      fabric_->topology().Bind(state.devices[i], state.physical[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace pw::controller
