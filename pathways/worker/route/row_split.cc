#include "pathways/worker/route/row_split.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

// A bound on a host's part in one route, which comes from the controller.
constexpr int64_t kMostRowsToSend = INT32_MAX;

}  // namespace

RowSplit::RowSplit(v1::RouteSender config, uint32_t receivers) : config_(std::move(config)), receivers_(receivers) {
  for (const auto& target : config_.targets()) keys_ += target.count();
}

absl::StatusOr<RowSplit> RowSplit::Create(v1::RouteSender config, uint32_t receivers) {
  const auto bad = [](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("a sender of a route is malformed: ", what));
  };
  if (config.row_bytes() < 0 || config.capacity() < 0) return bad("its sizes");
  for (const auto& piece : config.pieces()) {
    if (piece.count() < 0 || piece.count() > kMostRowsToSend || piece.first() < 0 || piece.first() > kMostRowsToSend)
      return bad("its rows");
    if (config.row_bytes() > 0 && piece.count() > INT64_MAX / config.row_bytes()) return bad("the bytes of its rows");
  }
  int64_t next = 0;
  for (const auto& target : config.targets()) {
    if (target.first() != next || target.count() < 1 || target.count() > kMostRowsToSend - next) return bad("its keys");
    next += target.count();
    for (uint32_t receiver : target.receivers()) {
      if (receiver >= receivers) return bad("its receivers");
    }
  }
  return RowSplit(std::move(config), receivers);
}

const v1::RouteSender::Target* RowSplit::TargetOf(int64_t key) const {
  const auto& targets = config_.targets();
  auto after =
      std::upper_bound(targets.begin(), targets.end(), key, [](int64_t k, const auto& target) { return k < target.first(); });
  return &*std::prev(after);
}

RowSplit::Part& RowSplit::PartOf(uint32_t receiver, int piece) {
  std::vector<Part>& parts = receivers_[receiver].parts;
  if (parts.empty() || parts.back().piece != piece) parts.push_back({piece, {}, {}});
  return parts.back();
}

absl::Status RowSplit::Add(absl::Span<const int32_t> keys, Bytes rows) {
  const int number = static_cast<int>(pieces_.size());
  const auto& piece = config_.pieces(number);
  std::map<int64_t, int64_t> sent;  // of each expert
  for (size_t row = 0; row < keys.size(); ++row) {
    const int64_t key = keys[row];
    if (key == -1) continue;
    if (key < 0 || key >= keys_) {
      const int64_t at = piece.first() + static_cast<int64_t>(row);
      if (config_.back())
        return absl::InvalidArgumentError(
            absl::StrCat("slot ", at, " names row ", key, ", and there are ", keys_, ": pass the slots as pw.route made them"));
      return absl::InvalidArgumentError(absl::StrCat("row ", at, " names expert ", key, ", and there are ", keys_,
                                                     ": experts are 0 to ", keys_ - 1, ", or -1 to send the row nowhere"));
    }
    const bool beyond = !config_.back() && ++sent[key] > config_.capacity();
    for (uint32_t receiver : TargetOf(key)->receivers()) {
      Part& part = PartOf(receiver, number);
      if (beyond)
        ++part.dropped[key];
      else
        part.rows.push_back(static_cast<uint32_t>(row));
    }
  }
  pieces_.push_back({{keys.begin(), keys.end()}, std::move(rows)});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Bytes>> RowSplit::Next(uint32_t number, size_t most_bytes) {
  Receiver& receiver = receivers_[number];
  if (receiver.part == receiver.parts.size()) return std::nullopt;
  Part& part = receiver.parts[receiver.part];
  const Piece& piece = pieces_[part.piece];
  const size_t row_bytes = std::max<size_t>(static_cast<size_t>(config_.row_bytes()), 1);
  const size_t from = receiver.row, count = std::min(part.rows.size() - from, std::max<size_t>(most_bytes / row_bytes, 1));
  v1::RouteRows header;
  header.set_first(config_.pieces(part.piece).first());
  for (size_t i = from; i < from + count; ++i) {
    header.add_keys(piece.keys[part.rows[i]]);
    header.add_rows(part.rows[i]);
  }
  receiver.row += count;
  rows_sent_ += static_cast<int64_t>(count);
  const bool ended = receiver.row == part.rows.size();
  if (ended) {
    for (const auto& [key, rows] : part.dropped) {
      auto& dropped = *header.add_dropped();
      dropped.set_key(key);
      dropped.set_rows(rows);
    }
  }
  PW_ASSIGN_OR_RETURN(Bytes tuple, Write(header, part, from, count));
  if (ended) {
    part = {};
    receiver.row = 0;
    ++receiver.part;
  }
  return tuple;
}

absl::StatusOr<Bytes> RowSplit::Write(const v1::RouteRows& header, const Part& part, size_t from, size_t count) const {
  const auto row_bytes = static_cast<size_t>(config_.row_bytes());
  const size_t header_bytes = header.ByteSizeLong();
  std::optional<AlignedBytes> tuple = TryAllocate(4 + header_bytes + count * row_bytes);
  if (!tuple.has_value())
    return absl::ResourceExhaustedError(absl::StrCat("the machine has no memory for ", count * row_bytes, " bytes of rows to send"));
  uint8_t* out = tuple->data();
  for (int i = 0; i < 4; ++i) *out++ = static_cast<uint8_t>(header_bytes >> (8 * i));
  header.SerializeToArray(out, static_cast<int>(header_bytes));
  out += header_bytes;
  const uint8_t* const rows = pieces_[part.piece].rows.data();
  for (size_t i = from; row_bytes > 0 && i < from + count; ++i, out += row_bytes)
    std::memcpy(out, rows + part.rows[i] * row_bytes, row_bytes);
  return (*std::move(tuple)).Freeze();
}

}  // namespace pw::worker
