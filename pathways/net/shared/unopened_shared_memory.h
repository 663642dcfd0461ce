// UnopenedSharedMemory: keeps shared memory alive that was *lent*: its name was sent to another process, which has not opened it yet. The
// process answers SharedTaken when it has; the owner then calls Return. A number names each transfer. Confined to its owner's strand.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::net {

class UnopenedSharedMemory {
 public:
  using Returned = absl::AnyInvocable<void() &&>;

  // Keeps `data` alive for the other process, until Return or DropSession. `returned` is called by Return, or when the transfer is lent again.
  void Add(uint64_t transfer, SessionId session, Bytes data, Returned returned = nullptr) {
    bytes_ += data.size();
    NoteLent(data);
    // A transfer is lent again if it was asked for again (worker.proto, Repeats). Its first memory is not noted as taken, since a process
    // may still open its name.
    Unopened first = std::exchange(unopened_[transfer], Unopened{session, std::move(data), std::move(returned)});
    bytes_ -= first.data.size();
    if (first.returned != nullptr) std::move(first.returned)();
  }
  void Return(uint64_t transfer) {
    auto it = unopened_.find(transfer);
    if (it == unopened_.end()) return;
    Unopened unopened = std::move(it->second);
    unopened_.erase(it);
    bytes_ -= unopened.data.size();
    NoteTaken(unopened.data);
    if (unopened.returned != nullptr) std::move(unopened.returned)();
  }
  void DropSession(SessionId session) {
    absl::erase_if(unopened_, [&](const auto& entry) {
      if (entry.second.session != session) return false;
      bytes_ -= entry.second.data.size();
      return true;
    });
  }
  // Drops all memory, because the other process is gone. Returns the `returned` callbacks that have not been called, by transfer.
  absl::flat_hash_map<uint64_t, Returned> DropAll() {
    absl::flat_hash_map<uint64_t, Returned> due;
    for (auto& [transfer, unopened] : unopened_) {
      if (unopened.returned != nullptr) due[transfer] = std::move(unopened.returned);
    }
    unopened_.clear();
    bytes_ = 0;
    return due;
  }
  size_t bytes() const { return bytes_; }
  size_t size() const { return unopened_.size(); }
  size_t bytes_of(SessionId session) const {
    size_t sum = 0;
    for (const auto& [transfer, unopened] : unopened_) sum += unopened.session == session ? unopened.data.size() : 0;
    return sum;
  }

 private:
  struct Unopened {
    SessionId session;
    Bytes data;
    Returned returned;
  };
  absl::flat_hash_map<uint64_t, Unopened> unopened_;
  size_t bytes_ = 0;
};

}  // namespace pw::net
