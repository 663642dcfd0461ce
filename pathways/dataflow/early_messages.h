// EarlyMessages: holds tuples and reports of runs whose start message has not reached this host yet. The runtime takes them when
// the run starts.
//
// Back-pressure. A tuple that waits here is not consumed: its sender gets the credit for it when the run starts or is over, and until then sends no more
// than a window (link_flow.h). So a late start slows senders down, however much they have to send. Starts must not wait for each other: if the tuples of a
// coordinator wait here for another run, it cannot send a start that stands behind more of them. So credit is held back only for runs whose coordinator has
// all of its own (EM-1).
//
// All other messages together take at most max_bytes: reports, and tuples for which no credit is held back, because of EM-1 or because a sender has sent
// more than its window. A run whose messages did not fit learns this when it starts (Held::lost_some).
//
// Invariant EM-1: among the hosts whose credit is held back, none waits in a cycle for a start of another.
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
  using Lane = std::pair<HostId, bool>;  // of a sender; whether it is the critical one
  using Credit = std::map<Lane, size_t>;

  struct Held {
    std::vector<std::pair<HostId, std::variant<TupleMessage, ReportMessage>>> messages;
    bool lost_some = false;
    size_t bytes = 0;                   // of messages that count against max_bytes
    Credit held_back{};                 // of tuples
    std::map<HostId, size_t> memory{};  // of these tuples, by sender
  };

  // `max_held_back`: the memory that tuples of one sender take whose credit is held back.
  EarlyMessages(size_t max_bytes, size_t max_held_back) : max_bytes_(max_bytes), max_held_back_(max_held_back) {}

  void Add(HostId from, ReportMessage message, size_t message_bytes) { Keep(from, std::move(message), message_bytes); }
  // Returns the credit that is held back: all of `tuple_bytes`, or none.
  size_t Add(HostId from, bool critical, TupleMessage message, size_t tuple_bytes) {
    const size_t bytes = tuple_bytes + kOverhead;
    const auto known = held_.find(message.run);
    const bool lost = known != held_.end() && known->second.lost_some;
    if (lost || back_of_.contains(message.run.coordinator) || MemoryOf(from) + bytes > max_held_back_) {
      Keep(from, std::move(message), tuple_bytes);
      return 0;
    }
    Held& held = held_[message.run];
    held.held_back[{from, critical}] += tuple_bytes;
    held.memory[from] += bytes;
    back_of_[from] += bytes;
    held.messages.emplace_back(from, std::move(message));
    return tuple_bytes;
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
  // The credit of this sender is void: its link begins anew.
  void VoidCredit(HostId from) {
    for (auto& [run, held] : held_) {
      for (bool critical : {false, true}) held.held_back.erase({from, critical});
    }
    for (bool critical : {false, true}) due_.erase({from, critical});
  }
  // Returns the credit of messages that have been taken or dropped since the last call.
  Credit TakeDue() { return std::exchange(due_, {}); }
  // The memory of all messages.
  size_t bytes() const {
    size_t bytes = bytes_;
    for (const auto& [host, memory] : back_of_) bytes += memory;
    return bytes;
  }

 private:
  static constexpr size_t kOverhead = 128;

  size_t MemoryOf(HostId from) const {
    const auto it = back_of_.find(from);
    return it == back_of_.end() ? 0 : it->second;
  }
  template <class Message>
  void Keep(HostId from, Message message, size_t message_bytes) {
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
  void Forget(const Held& held) {
    bytes_ -= held.bytes;
    for (const auto& [lane, credit] : held.held_back) due_[lane] += credit;
    for (const auto& [host, memory] : held.memory) {
      const auto it = back_of_.find(host);
      it->second -= memory;
      if (it->second == 0) back_of_.erase(it);
    }
  }

  const size_t max_bytes_;
  const size_t max_held_back_;
  size_t bytes_ = 0;
  std::map<RunId, Held> held_;
  std::map<HostId, size_t> back_of_;  // by sender: the memory of its tuples whose credit is held back
  Credit due_;
};

}  // namespace pw::dataflow
