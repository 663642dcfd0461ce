// MemoryLedger: allocates and counts the memory of one client, and enforces its limit.
//
// XLA requests each buffer and scratch area here. Invariants:
//  1. in_use() is the sum of the client's live allocations on all devices: XLA does not say for which device it allocates.
//  2. With a limit, an allocation that would exceed it fails with RESOURCE_EXHAUSTED and changes nothing.
//  3. Large blocks come directly from the kernel, aligned for huge pages: a fresh 64 MiB buffer costs 32 page faults, not 16,384.
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace xla {
class CpuMemory;
}

namespace pw::pjrt_cpu {

// A counter with its peak.
class UsageCounter {
 public:
  void Add(int64_t bytes);
  void Subtract(int64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }
  int64_t largest() const { return largest_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> largest_{0};
};

class MemoryLedger : public std::enable_shared_from_this<MemoryLedger> {
 public:
  // With a `limit_bytes` of 0, only the machine's memory limits allocations.
  explicit MemoryLedger(int64_t limit_bytes) : limit_(limit_bytes) {}

  absl::StatusOr<std::unique_ptr<xla::CpuMemory>> Allocate(size_t bytes, size_t alignment);

  const UsageCounter& usage() const { return usage_; }
  int64_t limit() const { return limit_; }

 private:
  class Block;
  const int64_t limit_;
  UsageCounter usage_;
};

// Returns the memory of the machine, or, if less, the limit at the root of its control groups (in a container: the container's).
int64_t MachineMemoryBytes();

}  // namespace pw::pjrt_cpu
