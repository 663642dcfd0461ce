// Joins the pieces of a payload into one buffer, as a socket does. In-memory connections use it. Pure.
#pragma once

#include <cstring>
#include <vector>

#include "pathways/base/memory/bytes.h"

namespace pw::net {

// Larger payloads are always copied: a sender may reuse its memory once a frame has been sent.
inline constexpr size_t kSharedPieceBytes = 64 << 10;

inline bool IsAligned(const Bytes& piece) { return reinterpret_cast<uintptr_t>(piece.data()) % 64 == 0; }

// Returns `pieces`, which have `size` bytes in all, as one buffer on a 64-byte boundary (transport.h).
inline Bytes Joined(const std::vector<Bytes>& pieces, size_t size) {
  if (size == 0) return Bytes();
  if (pieces.size() == 1 && size <= kSharedPieceBytes && IsAligned(pieces[0])) return pieces[0];
  AlignedBytes joined(size);
  size_t at = 0;
  for (const Bytes& piece : pieces) {
    if (!piece.empty()) std::memcpy(joined.data() + at, piece.data(), piece.size());
    at += piece.size();
  }
  return std::move(joined).Freeze();
}

}  // namespace pw::net
