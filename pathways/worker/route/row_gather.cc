#include "pathways/worker/route/row_gather.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/array_spec.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr int64_t kMostRowsInRoute = INT32_MAX;

absl::Status BadRows(const char* what) { return absl::InvalidArgumentError(absl::StrCat("rows of a route do not fit: ", what)); }

}  // namespace

absl::StatusOr<RowGather> RowGather::Create(v1::RouteReceiver config) {
  const auto bad = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("a receiver of a route is malformed: ", what));
  };
  RowGather gather(std::move(config));
  const v1::RouteReceiver& own = gather.config_;
  PW_ASSIGN_OR_RETURN(const buffers::DType dtype, buffers::DTypeFromNumber(own.dtype()));
  PW_ASSIGN_OR_RETURN(gather.row_bytes_, buffers::DenseBytes(dtype, own.row_dims()));
  if (own.source_rows() < 0 || own.source_rows() > kMostRowsInRoute || own.capacity() < 0 || own.capacity() > kMostRowsInRoute)
    return bad("its sizes");
  int64_t next = 0;
  for (int t = 0; t < own.tiles_size(); ++t) {
    const auto& tile = own.tiles(t);
    if (tile.first() < next || tile.first() > kMostRowsInRoute || tile.count() < 0 ||
        tile.count() > kMostRowsInRoute - tile.first())
      return bad("its tiles");
    next = tile.first() + tile.count();
    for (const auto what : {v1::RouteReceiver::ROWS, v1::RouteReceiver::SLOTS, v1::RouteReceiver::COUNTS})
      PW_RETURN_IF_ERROR(buffers::DenseBytes(gather.DTypeOf(what), gather.DimsOf(t, what)).status());
    for (const auto& output : tile.outputs()) {
      if (!v1::RouteReceiver::What_IsValid(output.what())) return bad("its outputs");
    }
  }
  return gather;
}

bool RowGather::IsHere(int64_t key) const {
  const auto& tiles = config_.tiles();
  const auto after =
      std::upper_bound(tiles.begin(), tiles.end(), key, [](int64_t k, const auto& tile) { return k < tile.first(); });
  return after != tiles.begin() && key - std::prev(after)->first() < std::prev(after)->count();
}

absl::Status RowGather::Check(const v1::RouteRows& header, size_t bytes) const {
  if (header.keys_size() != header.rows_size()) return BadRows("keys and rows differ in number");
  const auto count = static_cast<int64_t>(header.keys_size());
  if (count > config_.source_rows() - rows() - all_dropped_) return BadRows("there are more of them than in the source");
  if (bytes != static_cast<size_t>(count) * static_cast<size_t>(row_bytes_)) return BadRows("their bytes");
  if (header.first() < 0 || header.first() > config_.source_rows()) return BadRows("their source");
  for (int64_t row : header.rows()) {
    if (row < 0 || row >= config_.source_rows() - header.first()) return BadRows("a row is not in the source");
  }
  for (int64_t key : header.keys()) {
    if (!IsHere(key)) return BadRows("a row belongs to another host");
  }
  int64_t left = config_.source_rows() - rows() - all_dropped_ - count;
  for (const auto& dropped : header.dropped()) {
    if (!IsHere(dropped.key()) || dropped.rows() < 0 || dropped.rows() > left) return BadRows("the number of dropped rows");
    left -= dropped.rows();
  }
  return absl::OkStatus();
}

absl::Status RowGather::Add(const Bytes& tuple) {
  uint64_t header_bytes = 0;
  if (tuple.size() < 4) return BadRows("they have no header");
  for (int i = 0; i < 4; ++i) header_bytes |= uint64_t{tuple.data()[i]} << (8 * i);
  v1::RouteRows header;
  if (header_bytes > tuple.size() - 4 || !header.ParseFromArray(tuple.data() + 4, static_cast<int>(header_bytes)))
    return BadRows("their header does not parse");
  const size_t begin = 4 + static_cast<size_t>(header_bytes);
  PW_RETURN_IF_ERROR(Check(header, tuple.size() - begin));
  const uint8_t* data = tuple.data() + begin;
  for (int i = 0; i < header.keys_size(); ++i, data += row_bytes_)
    rows_.push_back({header.keys(i), header.first() + header.rows(i), data});
  for (const auto& dropped : header.dropped()) {
    dropped_[dropped.key()] += dropped.rows();
    all_dropped_ += dropped.rows();
  }
  if (header.keys_size() > 0) tuples_.push_back(tuple);
  return absl::OkStatus();
}

absl::Status RowGather::Sort() {
  const auto place = [](const Row& row) { return std::tie(row.key, row.source); };
  std::sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) { return place(a) < place(b); });
  const auto twice =
      std::adjacent_find(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) { return place(a) == place(b); });
  return twice == rows_.end() ? absl::OkStatus() : BadRows("a row has come twice");
}

buffers::DType RowGather::DTypeOf(What what) const {
  return what == v1::RouteReceiver::ROWS ? static_cast<buffers::DType>(config_.dtype()) : buffers::DType::kS32;
}

buffers::Dims RowGather::DimsOf(int tile, What what) const {
  buffers::Dims dims = {config_.tiles(tile).count()};
  if (!config_.back() && what != v1::RouteReceiver::COUNTS) dims.push_back(config_.capacity());
  if (what == v1::RouteReceiver::ROWS) dims.insert(dims.end(), config_.row_dims().begin(), config_.row_dims().end());
  return dims;
}

int64_t RowGather::BytesOf(int tile, What what) const { return *buffers::DenseBytes(DTypeOf(what), DimsOf(tile, what)); }

void RowGather::Fill(int tile, What what, uint8_t* out) const {
  if (BytesOf(tile, what) == 0) return;
  switch (what) {
    case v1::RouteReceiver::SLOTS:
      return FillSlots(tile, reinterpret_cast<int32_t*>(out));
    case v1::RouteReceiver::COUNTS:
      return FillCounts(tile, reinterpret_cast<int32_t*>(out));
    default:
      return config_.back() ? FillBack(tile, out) : FillOut(tile, out);
  }
}

std::vector<RowGather::Row>::const_iterator RowGather::FirstOf(int64_t key) const {
  return std::lower_bound(rows_.begin(), rows_.end(), key, [](const Row& row, int64_t k) { return row.key < k; });
}

template <class F>
void RowGather::ForEachSlot(int number, F each) const {
  const auto& tile = config_.tiles(number);
  int64_t key = -1, used = 0;
  for (auto row = FirstOf(tile.first()); row != rows_.end() && row->key < tile.first() + tile.count(); ++row) {
    used = row->key == key ? used + 1 : 0;
    key = row->key;
    if (used < config_.capacity()) each(*row, (key - tile.first()) * config_.capacity() + used);
  }
}

// Zeroes only the places that no row fills.
void RowGather::FillOut(int tile, uint8_t* out) const {
  int64_t next = 0;
  ForEachSlot(tile, [&](const Row& row, int64_t slot) {
    std::memset(out + next * row_bytes_, 0, static_cast<size_t>((slot - next) * row_bytes_));
    std::memcpy(out + slot * row_bytes_, row.data, static_cast<size_t>(row_bytes_));
    next = slot + 1;
  });
  std::memset(out + next * row_bytes_, 0,
              static_cast<size_t>((config_.tiles(tile).count() * config_.capacity() - next) * row_bytes_));
}

void RowGather::FillBack(int number, uint8_t* out) const {
  const auto& tile = config_.tiles(number);
  int64_t next = 0;
  for (auto row = FirstOf(tile.first()); row != rows_.end() && row->key < tile.first() + tile.count(); ++row) {
    const int64_t at = row->key - tile.first();
    if (at > next) std::memset(out + next * row_bytes_, 0, static_cast<size_t>((at - next) * row_bytes_));
    std::memcpy(out + at * row_bytes_, row->data, static_cast<size_t>(row_bytes_));  // the last row of a key counts
    next = at + 1;
  }
  std::memset(out + next * row_bytes_, 0, static_cast<size_t>((tile.count() - next) * row_bytes_));
}

void RowGather::FillSlots(int tile, int32_t* out) const {
  std::fill_n(out, config_.tiles(tile).count() * config_.capacity(), -1);
  ForEachSlot(tile, [&](const Row& row, int64_t slot) { out[slot] = static_cast<int32_t>(row.source); });
}

void RowGather::FillCounts(int number, int32_t* out) const {
  const auto& tile = config_.tiles(number);
  for (int64_t i = 0; i < tile.count(); ++i) {
    const int64_t key = tile.first() + i;
    const auto dropped = dropped_.find(key);
    out[i] = static_cast<int32_t>(FirstOf(key + 1) - FirstOf(key) + (dropped == dropped_.end() ? 0 : dropped->second));
  }
}

}  // namespace pw::worker
