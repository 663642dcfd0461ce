// RowSplit: divides the rows that this host sends in a route among the receivers, by their keys (route.proto), and makes the tuples.
//
// The keys of all pieces are added first; then the tuples for each receiver are made, one after another, as fast as the receiver takes them.
//
// Invariants:
//   RWS-1  each row whose key has receivers goes to each of them once, except those beyond the capacity, which are counted instead
//   RWS-2  the tuples for a receiver have the pieces in order, and the rows of a piece in order
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/v1/route.pb.h"

namespace pw::worker {

class RowSplit {
 public:
  // Checks the config. `receivers`: their number.
  static absl::StatusOr<RowSplit> Create(pathways::v1::RouteSender config, uint32_t receivers);

  // Adds the keys of the next piece, and its rows, dense. INVALID_ARGUMENT names the row whose key is out of range, counted over the whole source.
  // REQUIRES: there is another piece, and both have its size.
  absl::Status Add(absl::Span<const int32_t> keys, Bytes rows);

  // Returns the next tuple for a receiver, with about `most_bytes` of rows and at least one row; none: the receiver has had all.
  // RESOURCE_EXHAUSTED: the machine has no memory for it. REQUIRES: all pieces have been added.
  absl::StatusOr<std::optional<Bytes>> Next(uint32_t receiver, size_t most_bytes);

  const pathways::v1::RouteSender& config() const { return config_; }
  int64_t rows_sent() const { return rows_sent_; }

 private:
  struct Piece {
    std::vector<int32_t> keys;
    Bytes rows;
  };
  // The part of a piece for one receiver.
  struct Part {
    int piece = 0;
    std::vector<uint32_t> rows;  // positions in the piece
    std::map<int64_t, int64_t> dropped;
  };
  struct Receiver {
    std::vector<Part> parts;
    size_t part = 0, row = 0;  // the next to send
  };

  RowSplit(pathways::v1::RouteSender config, uint32_t receivers);
  const pathways::v1::RouteSender::Target* TargetOf(int64_t key) const;
  Part& PartOf(uint32_t receiver, int piece);
  absl::StatusOr<Bytes> Write(const pathways::v1::RouteRows& header, const Part& part, size_t from, size_t count) const;

  pathways::v1::RouteSender config_;
  int64_t keys_ = 0;  // their number
  std::vector<Piece> pieces_;
  std::vector<Receiver> receivers_;
  int64_t rows_sent_ = 0;
};

}  // namespace pw::worker
