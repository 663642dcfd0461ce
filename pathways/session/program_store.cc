#include "pathways/session/program_store.h"

#include <utility>

#include "pathways/base/sha256.h"

namespace pw::session {

void ProgramStore::Add(const Bytes& program) {
  if (!IsStored(program.size())) return;
  std::string sha256 = Sha256(program.view());
  if (!Find(sha256).empty()) return;
  entries_.push_front({sha256, Bytes::Copy(program.view())});  // a copy: the original may be a part of a larger frame
  by_hash_[std::move(sha256)] = entries_.begin();
  bytes_ += program.size();
  while (bytes_ > max_bytes_) {
    bytes_ -= entries_.back().program.size();
    by_hash_.erase(entries_.back().sha256);
    entries_.pop_back();
  }
}

Bytes ProgramStore::Find(absl::string_view sha256) {
  const auto found = by_hash_.find(sha256);
  if (found == by_hash_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->program;
}

}  // namespace pw::session
