// RowGather: the rows that have come to this host in a route, and the contents of the arrays that it makes of them (route.proto).
//
// Rows come in any order. Their places depend on their keys and on their positions in the source alone, so the arrays are always the same.
//
// Invariants:
//   GW-1  a tuple that does not fit the config is refused, and changes nothing. No tuple makes this keep more than its own bytes
//   GW-2  rows that have come and rows that were dropped are at most `source_rows` together
// Pure. Not thread-safe; the Fill methods only read.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"
#include "pathways/v1/route.pb.h"

namespace pw::worker {

class RowGather {
 public:
  using What = pathways::v1::RouteReceiver::What;

  static absl::StatusOr<RowGather> Create(pathways::v1::RouteReceiver config);

  // Takes a tuple. INVALID_ARGUMENT: it does not fit (GW-1).
  absl::Status Add(const Bytes& tuple);
  // Sorts the rows, after the last tuple. INVALID_ARGUMENT: a row has come twice.
  absl::Status Sort();

  // The array that is made of a tile.
  buffers::DType DTypeOf(What what) const;
  buffers::Dims DimsOf(int tile, What what) const;
  int64_t BytesOf(int tile, What what) const;
  // Writes all of it. REQUIRES: Sort.
  void Fill(int tile, What what, uint8_t* out) const;

  const pathways::v1::RouteReceiver& config() const { return config_; }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }

 private:
  struct Row {
    int64_t key;
    int64_t source;
    const uint8_t* data;
  };

  explicit RowGather(pathways::v1::RouteReceiver config) : config_(std::move(config)) {}
  absl::Status Check(const pathways::v1::RouteRows& header, size_t bytes) const;
  bool IsHere(int64_t key) const;
  void FillOut(int tile, uint8_t* out) const;
  void FillBack(int tile, uint8_t* out) const;
  void FillSlots(int tile, int32_t* out) const;
  void FillCounts(int tile, int32_t* out) const;
  // Calls each(row, slot) for the rows of the tile that have slots, in order.
  template <class F>
  void ForEachSlot(int tile, F each) const;
  std::vector<Row>::const_iterator FirstOf(int64_t key) const;

  pathways::v1::RouteReceiver config_;
  int64_t row_bytes_ = 0;
  std::vector<Row> rows_;
  std::vector<Bytes> tuples_;
  std::map<int64_t, int64_t> dropped_;  // by expert
  int64_t all_dropped_ = 0;
};

}  // namespace pw::worker
