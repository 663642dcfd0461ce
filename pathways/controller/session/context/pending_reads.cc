#include "pathways/controller/session/context/pending_reads.h"

#include <utility>

namespace pw::controller {

void PendingReads::Hold(std::vector<Record> arrays, session::StatusCallback done) {
  const uint64_t key = next_++;
  reads_->insert({key, Read{arrays, std::move(done)}});
  buffers::WhenAllSettled(arrays, [key, weak = std::weak_ptr<Reads>(reads_)](const absl::Status& status) {
    auto reads = weak.lock();
    if (reads == nullptr) return;
    auto it = reads->find(key);
    if (it == reads->end()) return;
    Read read = std::move(it->second);
    reads->erase(it);
    std::move(read.done)(status);
  });
}

void PendingReads::End(const absl::Status& error) {
  for (auto& [key, read] : std::exchange(*reads_, {})) std::move(read.done)(error);
}

}  // namespace pw::controller
