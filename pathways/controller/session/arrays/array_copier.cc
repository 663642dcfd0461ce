#include "pathways/controller/session/arrays/array_copier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/controller/arrays/array_layouts.h"
#include "pathways/dispatch/plan_move.h"

namespace pw::controller {

absl::StatusOr<ArrayCopier::SpecPtr> ArrayCopier::CopySpec(const ArrayEntry& source,
                                                           const std::optional<std::vector<DeviceId>>& devices,
                                                           const std::optional<std::string>& memory_kind) const {
  if (source.spec == nullptr) return SpecPtr();  // an error without a known shape stays one
  auto spec = std::make_shared<ArraySpec>(*source.spec);
  if (devices.has_value()) {
    if (static_cast<int>(devices->size()) != spec->sharding.num_shards()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a copy of ", buffers::ToString(*spec), " to ", devices->size(), " devices: it needs one for each shard"));
    }
    spec->sharding = spec->sharding.WithDevices(*devices);
  }
  if (memory_kind.has_value()) spec->sharding = spec->sharding.WithMemoryKind(*memory_kind);
  PW_RETURN_IF_ERROR(CheckKeepsLayout(fabric_->topology(), *source.spec, *spec));
  if (!source.is_error()) PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
  return SpecPtr(std::move(spec));
}

bool ArrayCopier::SamePlacement(const buffers::Sharding& a, const buffers::Sharding& b) const {
  if (a.devices() != b.devices()) return false;
  if (a.memory_kind() == b.memory_kind()) return true;
  for (DeviceId device : a.devices()) {
    const auto kind_a = fabric_->devices().MemoryKind(device, a.memory_kind()),
               kind_b = fabric_->devices().MemoryKind(device, b.memory_kind());
    if (!kind_a.ok() || !kind_b.ok() || *kind_a != *kind_b) return false;
  }
  return true;
}

// A request of many arrays has room for plans of ordinary size; the names of larger ones are the session's own. A command to a host has
// thousands of sends and receives (dispatch/plan_move.cc); shards that repeat others come in further commands.
NameNeed ArrayCopier::NeedOf(uint64_t pieces) {
  constexpr uint64_t kMostPieces = 1 << 16, kEntries = 4096;
  const uint64_t most = std::min(pieces, kMostPieces);
  return {1 + most, 3 * most / kEntries + 3};
}

void ArrayCopier::Move(Handle result, const ArrayEntry& source, const SpecPtr& spec, const buffers::ReshardPlan& plan) {
  uint64_t pieces = 0;
  for (const buffers::ReshardShard& shard : plan) pieces += shard.pieces.size();
  if (const absl::Status room = context_->names().now().CheckRoom(NeedOf(pieces)); !room.ok())
    return context_->InsertError(result, spec, room);
  Record record = context_->NewRecord(spec);
  const dispatch::MoveCall call{context_->id(), source.record->id(), source.spec.get(), record->id(), spec.get()};
  dispatch::PlanMove(
      fabric_->topology(), call, plan, [&] { return context_->names().now().NextId(); },
      [&](HostId host) { return context_->NameOp(host, {record}); }, fabric_->outbox());
  fabric_->gangs().Derive(context_->id(), record->id(), {source.record->id()});
  record->OnDone(absl::OkStatus());
  context_->arrays().Insert(result, {std::move(record), spec, nullptr, false});
}

absl::Status ArrayCopier::Copy(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                               const std::optional<std::vector<DeviceId>>& devices, const std::optional<std::string>& memory_kind,
                               CopySemantics semantics) {
  std::vector<ArrayEntry> sources;
  std::vector<SpecPtr> specs;
  auto check = [&]() -> absl::Status {
    PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
    if (results.size() != arrays.size())
      return absl::InvalidArgumentError(absl::StrCat(arrays.size(), " arrays to copy and ", results.size(), " results"));
    PW_ASSIGN_OR_RETURN(sources, context_->LiveEntries(arrays));
    for (const ArrayEntry& source : sources) {
      PW_ASSIGN_OR_RETURN(SpecPtr spec, CopySpec(source, devices, memory_kind));
      specs.push_back(std::move(spec));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = check(); !status.ok()) return context_->Fail(results, specs, status);
  for (size_t i = 0; i < results.size(); ++i) {
    const ArrayEntry& source = sources[i];
    const SessionNames::Part part(&context_->names(), NeedOf(specs[i] == nullptr ? 0 : specs[i]->sharding.devices().size()));
    if (source.is_error()) {
      context_->InsertError(results[i], specs[i], source.record->status());
    } else if (source.strings != nullptr) {
      context_->InsertStrings(results[i], specs[i], *source.strings);
    } else if (semantics != CopySemantics::kAlwaysCopy && SamePlacement(source.spec->sharding, specs[i]->sharding)) {
      context_->Share(results[i], source, specs[i]);
    } else {
      Move(results[i], source, specs[i], dispatch::ShardwisePlan(*source.spec));
    }
  }
  context_->Consume(arrays, semantics);
  return absl::OkStatus();
}

absl::StatusOr<StringCells> ArrayCopier::ReshardCells(const ArrayEntry& source, const ArraySpec& spec) const {
  const buffers::Sharding& from = source.spec->sharding;
  StringCells cells;
  for (int shard = 0; shard < spec.sharding.num_shards(); ++shard) {
    PW_ASSIGN_OR_RETURN(const buffers::Region region, spec.sharding.ShardRegion(spec.dims, shard));
    int match = 0;
    while (match < from.num_shards() && !(from.TileRegion(spec.dims, from.TileOfShard(match)) == region)) ++match;
    if (match == from.num_shards()) {
      return absl::UnimplementedError(absl::StrCat("string arrays cannot be cut anew: no shard of ",
                                                   buffers::ToString(*source.spec), " is shard ", shard, " of ",
                                                   buffers::ToString(spec), ". Put the strings again with the new sharding."));
    }
    cells.push_back((*source.strings)[match]);
  }
  return cells;
}

absl::Status ArrayCopier::ReshardOne(Handle result, const ArrayEntry& source, const SpecPtr& spec, CopySemantics semantics) {
  if (source.strings != nullptr) {
    PW_ASSIGN_OR_RETURN(StringCells cells, ReshardCells(source, *spec));
    context_->InsertStrings(result, spec, std::move(cells));
    return absl::OkStatus();
  }
  const buffers::Sharding& from = source.spec->sharding;
  if (semantics != CopySemantics::kAlwaysCopy && from.tiles() == spec->sharding.tiles() && SamePlacement(from, spec->sharding)) {
    context_->Share(result, source, spec);
    return absl::OkStatus();
  }
  const resource::Topology& topology = fabric_->topology();
  PW_ASSIGN_OR_RETURN(
      const buffers::ReshardPlan plan,
      buffers::PlanReshard(spec->dims, from, spec->sharding, [&](DeviceId device) { return topology.FindDevice(device)->host; }));
  Move(result, source, spec, plan);
  return absl::OkStatus();
}

absl::Status ArrayCopier::Reshard(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                  absl::Span<const ArraySpec> specs, CopySemantics semantics) {
  std::vector<ArrayEntry> sources;
  std::vector<SpecPtr> shared;
  for (const ArraySpec& spec : specs) shared.push_back(std::make_shared<const ArraySpec>(spec));
  auto check = [&]() -> absl::Status {
    PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
    if (results.size() != arrays.size() || specs.size() != arrays.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(arrays.size(), " arrays to reshard, ", specs.size(), " shardings and ", results.size(), " results"));
    }
    PW_ASSIGN_OR_RETURN(sources, context_->LiveEntries(arrays));
    for (size_t i = 0; i < specs.size(); ++i) {
      PW_RETURN_IF_ERROR(context_->CheckSpec(specs[i]));
      if (sources[i].is_error() || (sources[i].spec->dtype == specs[i].dtype && sources[i].spec->dims == specs[i].dims)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a reshard cannot turn ", buffers::ToString(*sources[i].spec), " into ", buffers::ToString(specs[i])));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = check(); !status.ok()) return context_->Fail(results, shared, status);
  absl::Status first;
  for (size_t i = 0; i < results.size(); ++i) {
    const uint64_t from = sources[i].spec == nullptr ? 0 : sources[i].spec->sharding.devices().size();
    const SessionNames::Part part(&context_->names(), NeedOf(from * shared[i]->sharding.devices().size()));
    if (sources[i].is_error()) {
      context_->InsertError(results[i], shared[i], sources[i].record->status());
    } else if (absl::Status status = ReshardOne(results[i], sources[i], shared[i], semantics); !status.ok()) {
      first.Update(context_->Fail({results[i]}, {shared[i]}, status));
    }
  }
  context_->Consume(arrays, semantics);
  return first;
}

}  // namespace pw::controller
