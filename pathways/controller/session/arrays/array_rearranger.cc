#include "pathways/controller/session/arrays/array_rearranger.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/dispatch/plan_arrays.h"

namespace pw::controller {
namespace {

using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;

std::vector<SpecPtr> Shared(absl::Span<const buffers::ArraySpec> specs) {
  std::vector<SpecPtr> shared;
  for (const auto& spec : specs) shared.push_back(std::make_shared<const buffers::ArraySpec>(spec));
  return shared;
}

SpecPtr SpecOfShard(const buffers::ArraySpec& spec, int shard) {
  return std::make_shared<const buffers::ArraySpec>(buffers::SingleShardSpec(spec, shard));
}

// Returns OK if `from_shard` of one array may become `shard` of another.
absl::Status CheckSameShard(const buffers::ArraySpec& spec, int shard, const buffers::ArraySpec& from, int from_shard) {
  const DeviceId to = spec.sharding.devices()[shard], at = from.sharding.devices()[from_shard];
  if (to != at) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard, " belongs on ", ToString(to), ", its source lives on ", ToString(at), ": copy it first"));
  }
  // A token has no elements; clients and programs may disagree on its shape.
  if (spec.dtype == buffers::DType::kToken && from.dtype == buffers::DType::kToken) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const buffers::Dims dims, spec.sharding.ShardDims(spec.dims, shard));
  PW_ASSIGN_OR_RETURN(const buffers::Dims from_dims, from.sharding.ShardDims(from.dims, from_shard));
  if (dims == from_dims && spec.dtype == from.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " of ", buffers::ToString(spec), " is ",
                                                 std::string(buffers::Name(spec.dtype)), "[", absl::StrJoin(dims, ","),
                                                 "], its source is ", std::string(buffers::Name(from.dtype)), "[",
                                                 absl::StrJoin(from_dims, ","), "]"));
}

absl::StatusOr<std::vector<buffers::RemapItem>> Resolve(const buffers::RemapPlan& plan, absl::Span<const SpecPtr> in,
                                                        absl::Span<const SpecPtr> out) {
  std::vector<int> in_shards, out_shards;
  std::vector<buffers::ShardDevices> in_devices, out_devices;
  for (const SpecPtr& spec : in) {
    in_shards.push_back(spec->sharding.num_shards());
    in_devices.push_back(&spec->sharding.devices());
  }
  for (const SpecPtr& spec : out) {
    out_shards.push_back(spec->sharding.num_shards());
    out_devices.push_back(&spec->sharding.devices());
  }
  PW_ASSIGN_OR_RETURN(const buffers::RemapPlan numbered, buffers::NumberShards(plan, in_devices, out_devices));
  return buffers::ResolveRemap(numbered, in_shards, out_shards);
}

absl::Status CheckCounts(size_t results, size_t arrays, size_t specs) {
  if (results == arrays && arrays == specs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(arrays, " arrays, ", specs, " descriptions and ", results, " results: their numbers must be equal"));
}

// Each shard must keep its number of bytes and its device; all shards of the result must have one shape.
absl::Status CheckBitcast(const buffers::ArraySpec& from, const buffers::ArraySpec& to) {
  if (buffers::HostBytes(from.dtype) == 0 || buffers::HostBytes(to.dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("a bitcast of ", buffers::ToString(from), " to ", buffers::ToString(to),
                                                   " is impossible: one of the types has no bytes in host memory"));
  }
  if (from.sharding.devices() != to.sharding.devices())
    return absl::InvalidArgumentError("a bitcast cannot move an array to other devices");
  PW_ASSIGN_OR_RETURN(const buffers::Dims first, to.sharding.ShardDims(to.dims, 0));
  for (int shard = 0; shard < to.sharding.num_shards(); ++shard) {
    PW_ASSIGN_OR_RETURN(const buffers::Dims dims, to.sharding.ShardDims(to.dims, shard));
    PW_ASSIGN_OR_RETURN(const int64_t bytes, buffers::ShardHostBytes(to, shard));
    PW_ASSIGN_OR_RETURN(const int64_t from_bytes, buffers::ShardHostBytes(from, shard));
    if (dims == first && bytes == from_bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("a bitcast of ", buffers::ToString(from), " to ", buffers::ToString(to),
                                                   ": shard ", shard, " has ", from_bytes, " bytes and would have ", bytes));
  }
  return absl::OkStatus();
}

// Returns ArrayEntry::effects of an array that is made of several.
buffers::LogicalArray::Ref AllOf(std::vector<buffers::LogicalArray::Ref> effects) {
  std::erase_if(effects, [](const auto& one) { return one == nullptr || one->settled(); });
  std::sort(effects.begin(), effects.end());
  effects.erase(std::unique(effects.begin(), effects.end()), effects.end());
  if (effects.empty()) return nullptr;
  if (effects.size() == 1) return effects[0];
  auto all = std::make_shared<buffers::LogicalArray>(ArrayId(), effects[0]->owner(), effects[0]->shared_spec(), 1, nullptr);
  buffers::WhenAllSettled(effects, [weak = std::weak_ptr(all)](const absl::Status& status) {
    if (auto array = weak.lock()) array->OnDone(status);
  });
  return all;
}

}  // namespace

ArrayEntry ArrayRearranger::Alias(const SpecPtr& spec, absl::Span<const ShardPick> picks) {
  Record record = context_->NewRecord(spec);
  std::vector<dispatch::AliasItem> items;
  for (size_t i = 0; i < picks.size(); ++i) {
    items.push_back(
        {record->id(), static_cast<int32_t>(i), picks[i].source->record->id(), picks[i].shard, spec->sharding.devices()[i]});
  }
  dispatch::PlanAlias(
      fabric_->topology(), context_->id(), items, [&](HostId host) { return context_->NameOp(host, {record}); },
      fabric_->outbox());
  for (const ShardPick& pick : picks) fabric_->gangs().Derive(context_->id(), record->id(), {pick.source->record->id()});
  record->OnDone(absl::OkStatus());
  std::vector<Record> effects;
  for (const ShardPick& pick : picks) effects.push_back(pick.source->effects);
  return {std::move(record), spec, nullptr, false, AllOf(std::move(effects))};
}

void ArrayRearranger::InsertAliases(Handle result, const SpecPtr& spec, absl::Span<const ShardPick> picks) {
  for (const ShardPick& pick : picks) {
    if (pick.source->is_error()) return context_->InsertError(result, spec, pick.source->record->status());
  }
  if (picks.front().source->strings != nullptr) {
    StringCells cells;
    for (const ShardPick& pick : picks) cells.push_back((*pick.source->strings)[pick.shard]);
    return context_->InsertStrings(result, spec, std::move(cells));
  }
  // An array of one shard: both handles share its record.
  if (picks.size() == 1 && picks[0].source->spec->sharding.num_shards() == 1)
    return context_->Share(result, *picks[0].source, spec);
  context_->arrays().Insert(result, Alias(spec, picks));
}

absl::Status ArrayRearranger::TryAssemble(Handle result, const SpecPtr& spec, absl::Span<const Handle> singles) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew({result}));
  PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
  PW_ASSIGN_OR_RETURN(const std::vector<ArrayEntry> entries, context_->LiveEntries(singles));
  if (static_cast<int>(entries.size()) != spec->sharding.num_shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(entries.size(), " arrays for the ", spec->sharding.num_shards(), " shards of ", buffers::ToString(*spec)));
  }
  std::vector<ShardPick> picks;
  for (size_t i = 0; i < entries.size(); ++i) {
    picks.push_back({&entries[i], 0});
    if (entries[i].is_error()) continue;
    if (entries[i].spec->sharding.num_shards() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("array ", singles[i], " to assemble is ",
                                                     buffers::ToString(*entries[i].spec), ", not on a single device"));
    }
    PW_RETURN_IF_ERROR(CheckSameShard(*spec, static_cast<int>(i), *entries[i].spec, 0));
  }
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({1, 1}));
  InsertAliases(result, spec, picks);
  return absl::OkStatus();
}

absl::Status ArrayRearranger::Assemble(Handle result, const ArraySpec& spec, absl::Span<const Handle> singles,
                                       CopySemantics semantics) {
  auto shared = std::make_shared<const ArraySpec>(spec);
  if (absl::Status status = TryAssemble(result, shared, singles); !status.ok()) return context_->Fail({result}, {shared}, status);
  context_->Consume(singles, semantics);
  return absl::OkStatus();
}

absl::Status ArrayRearranger::TryDisassemble(absl::Span<const Handle> results, Handle array) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
  PW_ASSIGN_OR_RETURN(const ArrayEntry* found, context_->arrays().Live(array));
  const ArrayEntry source = *found;
  if (source.spec == nullptr) return source.record->status();
  const ArraySpec& spec = *source.spec;
  if (static_cast<int>(results.size()) != spec.sharding.num_shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat(results.size(), " results for the ", spec.sharding.num_shards(), " shards of ", buffers::ToString(spec)));
  }
  if (source.is_error() || source.strings != nullptr || results.size() == 1) {
    for (size_t i = 0; i < results.size(); ++i)
      InsertAliases(results[i], SpecOfShard(spec, static_cast<int>(i)), {ShardPick{&source, static_cast<int>(i)}});
    return absl::OkStatus();
  }
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({results.size(), 1}));
  // One command to each host for all its shards.
  std::vector<dispatch::AliasItem> items;
  std::map<HostId, std::vector<Record>> by_host;
  for (size_t i = 0; i < results.size(); ++i) {
    SpecPtr single = SpecOfShard(spec, static_cast<int>(i));
    Record record = context_->NewRecord(single);
    const DeviceId device = single->sharding.devices()[0];
    items.push_back({record->id(), 0, source.record->id(), static_cast<int32_t>(i), device});
    by_host[fabric_->topology().FindDevice(device)->host].push_back(record);
    fabric_->gangs().Derive(context_->id(), record->id(), {source.record->id()});
    context_->arrays().Insert(results[i], {std::move(record), std::move(single), nullptr, false, source.effects});
  }
  dispatch::PlanAlias(
      fabric_->topology(), context_->id(), items, [&](HostId host) { return context_->NameOp(host, by_host[host]); },
      fabric_->outbox());
  for (auto& [host, records] : by_host) {
    for (const Record& record : records) record->OnDone(absl::OkStatus());
  }
  return absl::OkStatus();
}

absl::Status ArrayRearranger::Disassemble(absl::Span<const Handle> results, Handle array, CopySemantics semantics) {
  if (absl::Status status = TryDisassemble(results, array); !status.ok()) return context_->Fail(results, {}, status);
  context_->Consume({array}, semantics);
  return absl::OkStatus();
}

absl::Status ArrayRearranger::FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) {
  auto attempt = [&]() -> absl::Status {
    PW_RETURN_IF_ERROR(context_->arrays().CheckNew({result}));
    PW_ASSIGN_OR_RETURN(const ArrayEntry* found, context_->arrays().Live(array));
    const ArrayEntry source = *found;
    if (source.spec == nullptr) return context_->InsertError(result, nullptr, source.record->status()), absl::OkStatus();
    if (source.spec->sharding.num_tiles() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(buffers::ToString(*source.spec), " is not fully replicated"));
    }
    const bool single = source.spec->sharding.num_shards() == 1;
    const ShardPick pick{&source, 0};
    InsertAliases(result, single ? source.spec : SpecOfShard(*source.spec, 0), {pick});
    return absl::OkStatus();
  };
  if (absl::Status status = attempt(); !status.ok()) return context_->Fail({result}, {}, status);
  context_->Consume({array}, semantics);
  return absl::OkStatus();
}

absl::Status ArrayRearranger::TryRemap(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                       const buffers::RemapPlan& plan, absl::Span<const SpecPtr> specs) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
  PW_RETURN_IF_ERROR(CheckCounts(results.size(), results.size(), specs.size()));
  PW_ASSIGN_OR_RETURN(const std::vector<ArrayEntry> sources, context_->LiveEntries(arrays));
  std::vector<SpecPtr> source_specs;
  for (const ArrayEntry& source : sources) {
    if (source.spec == nullptr) return source.record->status();
    source_specs.push_back(source.spec);
  }
  for (const SpecPtr& spec : specs) PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
  PW_ASSIGN_OR_RETURN(const std::vector<buffers::RemapItem> items, Resolve(plan, source_specs, specs));
  std::vector<std::vector<ShardPick>> picks(results.size());
  for (const buffers::RemapItem& item : items) {
    const ArrayEntry& source = sources[item.in_array];
    if (!source.is_error())
      PW_RETURN_IF_ERROR(CheckSameShard(*specs[item.out_array], item.out_shard, *source.spec, item.in_shard));
    picks[item.out_array].push_back({&source, item.in_shard});  // ascending, each once (RM-1)
  }
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({results.size(), results.size()}));
  for (size_t i = 0; i < results.size(); ++i) {
    const SessionNames::Part part(&context_->names(), {1, 1});
    InsertAliases(results[i], specs[i], picks[i]);
  }
  return absl::OkStatus();
}

absl::Status ArrayRearranger::Remap(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                    const buffers::RemapPlan& plan, absl::Span<const ArraySpec> specs, CopySemantics semantics) {
  const std::vector<SpecPtr> shared = Shared(specs);
  if (absl::Status status = TryRemap(results, arrays, plan, shared); !status.ok()) return context_->Fail(results, shared, status);
  context_->Consume(arrays, semantics);
  return absl::OkStatus();
}

absl::Status ArrayRearranger::TryBitcast(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                         absl::Span<const SpecPtr> specs) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
  PW_RETURN_IF_ERROR(CheckCounts(results.size(), arrays.size(), specs.size()));
  PW_ASSIGN_OR_RETURN(const std::vector<ArrayEntry> sources, context_->LiveEntries(arrays));
  std::vector<buffers::Dims> shard_dims;
  for (size_t i = 0; i < sources.size(); ++i) {
    PW_RETURN_IF_ERROR(context_->CheckSpec(*specs[i]));
    PW_ASSIGN_OR_RETURN(buffers::Dims dims, specs[i]->sharding.ShardDims(specs[i]->dims, 0));
    shard_dims.push_back(std::move(dims));
    if (sources[i].is_error()) continue;
    PW_RETURN_IF_ERROR(CheckBitcast(*sources[i].spec, *specs[i]));
  }
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({results.size(), results.size()}));
  for (size_t i = 0; i < sources.size(); ++i) {
    const SessionNames::Part part(&context_->names(), {1, 1});
    if (sources[i].is_error()) {
      context_->InsertError(results[i], specs[i], sources[i].record->status());
      continue;
    }
    Record record = context_->NewRecord(specs[i]);
    const auto& hosts = fabric_->groups().Of(fabric_->topology(), specs[i]->sharding)->hosts();
    dispatch::PlanBitcast(
        hosts, context_->id(), sources[i].record->id(), record->id(), specs[i]->dtype, shard_dims[i],
        [&](HostId host) { return context_->NameOp(host, {record}); }, fabric_->outbox());
    fabric_->gangs().Derive(context_->id(), record->id(), {sources[i].record->id()});
    record->OnDone(absl::OkStatus());
    context_->arrays().Insert(results[i], {std::move(record), specs[i], nullptr, false, sources[i].effects});
  }
  return absl::OkStatus();
}

absl::Status ArrayRearranger::Bitcast(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                      absl::Span<const ArraySpec> specs, CopySemantics semantics) {
  const std::vector<SpecPtr> shared = Shared(specs);
  if (absl::Status status = TryBitcast(results, arrays, shared); !status.ok()) return context_->Fail(results, shared, status);
  context_->Consume(arrays, semantics);
  return absl::OkStatus();
}

}  // namespace pw::controller
