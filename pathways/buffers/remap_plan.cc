#include "pathways/buffers/remap_plan.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

template <class... T>
absl::Status Bad(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat("remap plan: ", text...));
}

int64_t Length(const ShardRange& range) { return range.start >= range.end ? 0 : (range.end - range.start - 1) / range.step + 1; }

// Returns the number of indices in the ranges, each below `shards`. At most ranges.size() * shards.
absl::StatusOr<int64_t> CountIndices(const std::vector<ShardRange>& ranges, int shards) {
  int64_t n = 0;
  for (const ShardRange& r : ranges) {
    if (r.start < 0 || r.end < 0 || r.end > shards || r.start > r.end || r.step < 1) {
      return Bad("the range [", r.start, ", ", r.end, ") by ", r.step, " does not fit an array of ", shards, " shards");
    }
    n += Length(r);
  }
  return n;
}

// Iterates over the indices of a list of ranges.
class Cursor {
 public:
  explicit Cursor(const std::vector<ShardRange>& ranges) : ranges_(ranges) { Seek(); }
  // Returns the next index. REQUIRES: not past the last
  int64_t Next() {
    const ShardRange& r = ranges_[range_];
    const int64_t index = r.start + at_ * r.step;
    if (++at_ == Length(r)) {
      ++range_;
      Seek();
    }
    return index;
  }

 private:
  void Seek() {
    at_ = 0;
    while (range_ < ranges_.size() && Length(ranges_[range_]) == 0) ++range_;
  }

  const std::vector<ShardRange>& ranges_;
  size_t range_ = 0;
  int64_t at_ = 0;
};

// The table of output shards while it is filled: one flat row, arrays one after another.
struct Table {
  std::vector<size_t> first;     // index of each output array's first item; one more at the end
  std::vector<RemapItem> items;  // in_array -1: not mapped yet

  explicit Table(absl::Span<const int> out_shards) {
    first.push_back(0);
    for (size_t a = 0; a < out_shards.size(); ++a) {
      for (int s = 0; s < out_shards[a]; ++s) items.push_back({static_cast<int32_t>(a), s, -1, -1});
      first.push_back(items.size());
    }
  }
};

// Finds shards by device. Each array is indexed at its first lookup.
class ShardIndex {
 public:
  ShardIndex(const char* role, absl::Span<const ShardDevices> arrays) : role_(role), arrays_(arrays), indexed_(arrays.size()) {}

  absl::StatusOr<int64_t> Find(int32_t array, DeviceId device) {
    if (array < 0 || static_cast<size_t>(array) >= arrays_.size()) {
      return Bad("there is no ", role_, " array ", array, ", only ", arrays_.size());
    }
    if (!indexed_[array].has_value()) PW_RETURN_IF_ERROR(Index(array));
    auto it = indexed_[array]->find(device);
    if (it != indexed_[array]->end()) return it->second;
    return Bad(role_, " array ", array, " has no shard on ", ToString(device));
  }

 private:
  absl::Status Index(int32_t array) {
    absl::flat_hash_map<DeviceId, int64_t> shards;
    for (DeviceId device : *arrays_[array]) {
      if (!shards.try_emplace(device, shards.size()).second) {
        return Bad(role_, " array ", array, " has two shards on ", ToString(device), ": a device does not tell them apart");
      }
    }
    indexed_[array] = std::move(shards);
    return absl::OkStatus();
  }

  const char* const role_;
  const absl::Span<const ShardDevices> arrays_;
  std::vector<std::optional<absl::flat_hash_map<DeviceId, int64_t>>> indexed_;
};

absl::Status Apply(const RemapMapping& m, absl::Span<const int> in_shards, absl::Span<const int> out_shards, Table& table) {
  if (m.in_array < 0 || static_cast<size_t>(m.in_array) >= in_shards.size()) {
    return Bad("there is no input array ", m.in_array, ", only ", in_shards.size());
  }
  if (m.out_array < 0 || static_cast<size_t>(m.out_array) >= out_shards.size()) {
    return Bad("there is no output array ", m.out_array, ", only ", out_shards.size());
  }
  PW_ASSIGN_OR_RETURN(const int64_t from_count, CountIndices(m.from, in_shards[m.in_array]));
  PW_ASSIGN_OR_RETURN(const int64_t to_count, CountIndices(m.to, out_shards[m.out_array]));
  if (from_count != to_count) {
    return Bad("a mapping from array ", m.in_array, " to array ", m.out_array, " pairs ", from_count, " shards with ", to_count);
  }
  Cursor from(m.from), to(m.to);
  for (int64_t i = 0; i < to_count; ++i) {  // ends at a duplicate, so it runs at most once per output shard
    const int64_t in = from.Next(), out = to.Next();
    RemapItem& item = table.items[table.first[m.out_array] + out];
    if (item.in_array >= 0) return Bad("shard ", out, " of output array ", m.out_array, " is mapped twice");
    item.in_array = m.in_array;
    item.in_shard = static_cast<int32_t>(in);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemapPlan> NumberShards(const RemapPlan& plan, absl::Span<const ShardDevices> in,
                                       absl::Span<const ShardDevices> out) {
  RemapPlan numbered{plan.mappings};
  ShardIndex inputs("input", in), outputs("output", out);
  for (const RemapDevices& entry : plan.by_device) {
    RemapMapping& mapping = numbered.mappings.emplace_back(RemapMapping{entry.in_array, entry.out_array, {}, {}});
    for (DeviceId device : entry.devices) {
      PW_ASSIGN_OR_RETURN(const int64_t from, inputs.Find(entry.in_array, device));
      PW_ASSIGN_OR_RETURN(const int64_t to, outputs.Find(entry.out_array, device));
      mapping.from.push_back({from, from + 1});
      mapping.to.push_back({to, to + 1});
    }
  }
  return numbered;
}

absl::StatusOr<std::vector<RemapItem>> ResolveRemap(const RemapPlan& plan, absl::Span<const int> in_shards,
                                                    absl::Span<const int> out_shards) {
  PW_CHECK(plan.by_device.empty());
  Table table(out_shards);
  for (const RemapMapping& mapping : plan.mappings) PW_RETURN_IF_ERROR(Apply(mapping, in_shards, out_shards, table));
  for (const RemapItem& item : table.items) {
    if (item.in_array < 0) return Bad("nothing feeds shard ", item.out_shard, " of output array ", item.out_array);
  }
  return std::move(table.items);
}

}  // namespace pw::buffers
