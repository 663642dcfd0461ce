// ProgramStore: the programs that clients have sent to the controller recently, by their SHA-256. A client names a program by its
// hash first, and sends its bytes only if the controller does not have them (CompileProgram in session.proto).
//
// Only a client that has a program knows its hash, so sessions share the store. The store computes the hashes itself.
//
// Invariants:
//   PZ-1  the programs kept have at most `max_bytes` together; the least recently used is dropped first
// Strand-confined.
#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "pathways/base/memory/bytes.h"

namespace pw::session {

// Programs of these sizes are named by their hash: sending a smaller one costs less than asking, and hashing a larger one keeps others
// waiting.
inline constexpr size_t kLeastStoredProgramBytes = 16 << 10;
inline constexpr size_t kMostStoredProgramBytes = 16 << 20;
inline bool IsStored(size_t program_bytes) {
  return program_bytes >= kLeastStoredProgramBytes && program_bytes <= kMostStoredProgramBytes;
}

class ProgramStore {
 public:
  explicit ProgramStore(size_t max_bytes = 4 * kMostStoredProgramBytes) : max_bytes_(max_bytes) {}

  // Keeps a copy of the program if IsStored says so.
  void Add(const Bytes& program);
  // Returns the program with this hash; empty if it is not here.
  Bytes Find(absl::string_view sha256);
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string sha256;
    Bytes program;
  };
  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // the last used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_hash_;
};

}  // namespace pw::session
