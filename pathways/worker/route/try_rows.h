// TryRows: gives a RowGather the tuples of another host, for its fuzzer and its tests. The first byte chooses the config; then come the tuples, each after
// its length in two bytes. Ends the process if an invariant is broken (row_gather.h), or if memory beside an array is written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/worker/route/row_gather.h"

namespace pw::worker {

// Returns the next piece of the input, after its length.
inline std::string_view TakePiece(std::string_view* input) {
  if (input->size() < 2) return {};
  const auto length = static_cast<size_t>(static_cast<uint8_t>((*input)[0]) | static_cast<uint8_t>((*input)[1]) << 8);
  const std::string_view piece = input->substr(2, length);
  input->remove_prefix(2 + piece.size());
  return piece;
}

// Returns a receiver of rows of one s32, of 40 in the source.
inline pathways::v1::RouteReceiver ConfigToTry(uint8_t choice) {
  pathways::v1::RouteReceiver config;
  config.set_back((choice & 1) != 0);
  config.set_dtype(static_cast<int32_t>(buffers::DType::kS32));
  config.set_source_rows(40);
  config.set_capacity(choice >> 1 & 7);
  for (int tile = 0; tile < 2; ++tile) {
    config.add_tiles()->set_first(2 + 5 * tile);
    config.mutable_tiles(tile)->set_count(choice >> 4 & 3);
  }
  return config;
}

inline void FillAll(const RowGather& gather) {
  using Receiver = pathways::v1::RouteReceiver;
  constexpr uint8_t kGuard = 0xa5;
  for (int tile = 0; tile < gather.config().tiles_size(); ++tile) {
    for (const auto what : {Receiver::ROWS, Receiver::SLOTS, Receiver::COUNTS}) {
      if (gather.config().back() && what != Receiver::ROWS) continue;
      const int64_t bytes = gather.BytesOf(tile, what);
      if (bytes > 1 << 20) continue;
      std::vector<uint8_t> memory(static_cast<size_t>(bytes) + 2 * sizeof(int32_t), kGuard);
      gather.Fill(tile, what, memory.data() + sizeof(int32_t));
      for (size_t k = 0; k < sizeof(int32_t); ++k) PW_CHECK(memory[k] == kGuard && memory[memory.size() - 1 - k] == kGuard);
    }
  }
}

// Returns the number of tuples that fit.
inline int TryRows(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  pathways::v1::RouteReceiver config = ConfigToTry(data[0]);
  if ((data[0] & 128) != 0) {
    const std::string_view text = TakePiece(&input);
    if (!config.ParseFromArray(text.data(), static_cast<int>(text.size()))) return 0;
  }
  auto gather = RowGather::Create(std::move(config));
  if (!gather.ok()) return 0;
  int fit = 0;
  while (input.size() >= 2) {
    const int64_t before = gather->rows();
    const bool added = gather->Add(Bytes::Copy(TakePiece(&input))).ok();
    PW_CHECK(added || gather->rows() == before);                 // GW-1
    PW_CHECK(gather->rows() <= gather->config().source_rows());  // GW-2
    fit += added ? 1 : 0;
  }
  if (gather->Sort().ok()) FillAll(*gather);
  return fit;
}

}  // namespace pw::worker
