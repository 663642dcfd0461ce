#include "pathways/controller/session/context/pending_reads.h"

#include <utility>

namespace pw::controller {

void PendingReads::Hold(std::vector<Record> arrays, session::StatusCallback done) {
  const std::vector<Record> awaited = arrays;
  Add(awaited, {std::move(arrays), {}, std::move(done)});
}

void PendingReads::Watch(const std::vector<Record>& arrays, session::StatusCallback done) {
  std::vector<buffers::LogicalArray::Watch> watches;
  for (const Record& array : arrays) watches.emplace_back(array);
  Add(arrays, {{}, std::move(watches), std::move(done)});
}

void PendingReads::Add(absl::Span<const Record> arrays, Read read) {
  const uint64_t key = next_++;
  reads_->emplace(key, std::move(read));
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
