// EarlyMessages: holds tuples and reports of runs whose start message has not reached this host yet. The runtime takes them when
// the run starts.
//
// All messages together take at most max_bytes. A run whose messages did not fit learns this when it starts (Held::lost_some).
// Pure. Strand-confined.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "pathways/dataflow/frame.h"

namespace pw::dataflow {

class EarlyMessages {
 public:
  struct Held {
    std::vector<std::pair<HostId, std::variant<TupleMessage, ReportMessage>>> messages;
    bool lost_some = false;
    size_t bytes = 0;
  };

  explicit EarlyMessages(size_t max_bytes) : max_bytes_(max_bytes) {}

  template <class Message>
  void Add(HostId from, Message message, size_t message_bytes) {
    const size_t bytes = message_bytes + kOverhead;
    // A run that has lost a message keeps no others. Its entry takes memory too, so the number of such runs is bounded as well.
    auto it = held_.find(message.run);
    if (it != held_.end() && it->second.lost_some) return;
    if (bytes_ + bytes > max_bytes_) {
      if (it != held_.end()) {
        Forget(it->second);
        it->second = {{}, true, 0};
      } else if (held_.size() * kOverhead < max_bytes_) {
        held_[message.run].lost_some = true;
      }
      return;
    }
    Held& held = held_[message.run];
    held.bytes += bytes;
    bytes_ += bytes;
    held.messages.emplace_back(from, std::move(message));
  }
  // Removes and returns the messages of a run that starts now.
  Held Take(RunId run) {
    auto it = held_.find(run);
    if (it == held_.end()) return {};
    Held held = std::move(it->second);
    Forget(held);
    held_.erase(it);
    return held;
  }
  // Drops the messages of this coordinator's runs before `oldest_live`.
  void DropBefore(HostId coordinator, uint64_t oldest_live) {
    auto begin = held_.lower_bound({coordinator, 0}), end = held_.lower_bound({coordinator, oldest_live});
    for (auto it = begin; it != end; ++it) Forget(it->second);
    held_.erase(begin, end);
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kOverhead = 128;
  void Forget(const Held& held) { bytes_ -= held.bytes; }

  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::map<RunId, Held> held_;
};

}  // namespace pw::dataflow
