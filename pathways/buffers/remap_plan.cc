#include "pathways/buffers/remap_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

template <class... T>
absl::Status Bad(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat("remap plan: ", text...));
}

int64_t Length(const ShardRange& range) { return range.start >= range.end ? 0 : (range.end - range.start - 1) / range.step + 1; }

// The number of indices in the ranges, each below `shards`. At most ranges.size() * shards.
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

// Walks the indices of a list of ranges.
class Cursor {
 public:
  explicit Cursor(const std::vector<ShardRange>& ranges) : ranges_(ranges) { Seek(); }
  // REQUIRES: not past the last
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

// The table of output shards under construction: one flat row, arrays one after another.
struct Table {
  std::vector<size_t> first;     // of each output array; one more at the end
  std::vector<RemapItem> items;  // in_array -1: not mapped yet

  explicit Table(absl::Span<const int> out_shards) {
    first.push_back(0);
    for (size_t a = 0; a < out_shards.size(); ++a) {
      for (int s = 0; s < out_shards[a]; ++s) items.push_back({static_cast<int32_t>(a), s, -1, -1});
      first.push_back(items.size());
    }
  }
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
  for (int64_t i = 0; i < to_count; ++i) {  // ends early on a duplicate, so never runs longer than there are output shards
    const int64_t in = from.Next(), out = to.Next();
    RemapItem& item = table.items[table.first[m.out_array] + out];
    if (item.in_array >= 0) return Bad("shard ", out, " of output array ", m.out_array, " is mapped twice");
    item.in_array = m.in_array;
    item.in_shard = static_cast<int32_t>(in);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RemapItem>> ResolveRemap(const RemapPlan& plan, absl::Span<const int> in_shards,
                                                    absl::Span<const int> out_shards) {
  Table table(out_shards);
  for (const RemapMapping& mapping : plan.mappings) PW_RETURN_IF_ERROR(Apply(mapping, in_shards, out_shards, table));
  for (const RemapItem& item : table.items) {
    if (item.in_array < 0) return Bad("nothing feeds shard ", item.out_shard, " of output array ", item.out_array);
  }
  return std::move(table.items);
}

}  // namespace pw::buffers
