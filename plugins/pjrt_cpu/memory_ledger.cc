#include "plugins/pjrt_cpu/memory_ledger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/status.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_memory.h"

namespace pw::pjrt_cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = size_t{4} << 20;

void RaiseTo(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// Maps `bytes` at a huge-page boundary: maps one page more than needed and unmaps both ends.
void* MapLarge(size_t bytes) {
  const size_t padded = bytes + kHugePage;
  void* raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned != begin) munmap(raw, aligned - begin);
  const uintptr_t end = begin + padded;
  if (end != aligned + bytes) munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);  // a kernel without huge pages still gives memory
  return reinterpret_cast<void*>(aligned);
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void UsageCounter::Add(int64_t bytes) {
  const int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  allocations_.fetch_add(1, std::memory_order_relaxed);
  RaiseTo(peak_, now);
  RaiseTo(largest_, bytes);
}

class MemoryLedger::Block : public xla::CpuMemory {
 public:
  Block(std::shared_ptr<MemoryLedger> ledger, void* base, size_t bytes, size_t mapped)
      : ledger_(std::move(ledger)), base_(base), bytes_(bytes), mapped_(mapped) {}
  ~Block() override {
    if (mapped_ != 0) {
      munmap(base_, mapped_);
    } else {
      std::free(base_);
    }
    ledger_->usage_.Subtract(static_cast<int64_t>(bytes_));
  }
  void* base() const override { return base_; }
  size_t size_bytes() const override { return bytes_; }

 private:
  std::shared_ptr<MemoryLedger> ledger_;
  void* base_;
  size_t bytes_;
  size_t mapped_;  // 0: from malloc
};

absl::StatusOr<std::unique_ptr<xla::CpuMemory>> MemoryLedger::Allocate(size_t bytes, size_t alignment) {
  const int64_t wanted = static_cast<int64_t>(bytes);
  usage_.Add(wanted);  // counted before the allocation, so that two callers cannot both take the last bytes
  const auto refuse = [&](const std::string& why) {
    usage_.Subtract(wanted);
    return Lasting(absl::ResourceExhaustedError(absl::StrCat("Out of memory allocating ", bytes, " bytes: ", why)));
  };
  if (limit_ > 0 && usage_.in_use() > limit_) {
    return refuse(absl::StrCat(usage_.in_use() - wanted, " of ", limit_,
                               " bytes are in use (client option memory_limit_bytes). Free arrays or raise the limit."));
  }
  const bool map = bytes >= kMapFrom && alignment <= kHugePage;
  const size_t mapped = map ? RoundUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE))) : 0;
  const size_t unit = std::max(alignment, sizeof(void*));
  void* base = map ? MapLarge(mapped) : std::aligned_alloc(unit, RoundUp(std::max<size_t>(bytes, 1), unit));
  if (base == nullptr) return refuse("the operating system has no more. Free arrays or use smaller ones.");
  return std::make_unique<Block>(shared_from_this(), base, bytes, mapped);
}

int64_t MachineMemoryBytes() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t group = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> group && group > 0) bytes = std::min(bytes, group);
  return bytes;
}

}  // namespace pw::pjrt_cpu
