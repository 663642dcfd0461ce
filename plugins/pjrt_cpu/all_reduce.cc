#include "plugins/pjrt_cpu/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "plugins/pjrt_cpu/fibers.h"
#include "xla/backends/cpu/collectives/in_process_communicator.h"
#include "xla/future.h"
#include "xla/types.h"

namespace pw::pjrt_cpu {
namespace {

constexpr size_t kMostBytes = 64 << 10;  // above this, sharing the arithmetic is worth the wake-ups
constexpr size_t kBlockBytes = 2048;

using Ranks = absl::InlinedVector<const char*, 16>;

// Reduces `count` elements at byte `offset` of every input into `out`.
using Reduce = void (*)(const Ranks& inputs, size_t offset, size_t count, void* out);

template <typename T, typename Op>
void ReduceBlock(const Ranks& inputs, size_t offset, size_t count, void* out) {
  T* sum = static_cast<T*>(out);
  std::memcpy(sum, inputs[0] + offset, count * sizeof(T));
  for (size_t r = 1; r < inputs.size(); ++r) {
    const T* next = reinterpret_cast<const T*>(inputs[r] + offset);
    for (size_t i = 0; i < count; ++i) sum[i] = Op()(sum[i], next[i]);
  }
}

template <typename T>
struct Sum {
  T operator()(T a, T b) const { return static_cast<T>(a + b); }
};
template <typename T>
struct Product {
  T operator()(T a, T b) const { return static_cast<T>(a * b); }
};
template <typename T>
struct Least {
  T operator()(T a, T b) const { return std::min(a, b); }
};
template <typename T>
struct Greatest {
  T operator()(T a, T b) const { return std::max(a, b); }
};

template <typename T>
Reduce ForArithmetic(xla::ReductionKind kind) {
  if (kind == xla::ReductionKind::SUM) return ReduceBlock<T, Sum<T>>;
  if (kind == xla::ReductionKind::PRODUCT) return ReduceBlock<T, Product<T>>;
  return nullptr;  // minimum and maximum are left to XLA, which defines their result for NaN
}

// Sums and products use unsigned types, so that they wrap around.
template <typename T, typename Wrapping>
Reduce ForInteger(xla::ReductionKind kind) {
  if (kind == xla::ReductionKind::MIN) return ReduceBlock<T, Least<T>>;
  if (kind == xla::ReductionKind::MAX) return ReduceBlock<T, Greatest<T>>;
  return ForArithmetic<Wrapping>(kind);
}

// Returns null for reductions left to XLA.
Reduce FindReduce(xla::PrimitiveType type, xla::ReductionKind kind) {
  switch (type) {
    case xla::F32:
      return ForArithmetic<float>(kind);
    case xla::F64:
      return ForArithmetic<double>(kind);
    case xla::BF16:
      return ForArithmetic<xla::bfloat16>(kind);
    case xla::F16:
      return ForArithmetic<xla::half>(kind);
    case xla::S8:
      return ForInteger<int8_t, uint8_t>(kind);
    case xla::U8:
      return ForInteger<uint8_t, uint8_t>(kind);
    case xla::S16:
      return ForInteger<int16_t, uint16_t>(kind);
    case xla::U16:
      return ForInteger<uint16_t, uint16_t>(kind);
    case xla::S32:
      return ForInteger<int32_t, uint32_t>(kind);
    case xla::U32:
      return ForInteger<uint32_t, uint32_t>(kind);
    case xla::S64:
      return ForInteger<int64_t, uint64_t>(kind);
    case xla::U64:
      return ForInteger<uint64_t, uint64_t>(kind);
    default:
      return nullptr;
  }
}

size_t WidthOf(xla::PrimitiveType type) {
  switch (type) {
    case xla::S8:
    case xla::U8:
      return 1;
    case xla::S16:
    case xla::U16:
    case xla::F16:
    case xla::BF16:
      return 2;
    case xla::F64:
    case xla::S64:
    case xla::U64:
      return 8;
    default:
      return 4;
  }
}

// Clique: the open meetings of one set of devices, at which not all have arrived. Its communicators share it.
class Clique {
 public:
  explicit Clique(size_t size) : size_(size) {}

  struct Seat {
    const char* in = nullptr;
    char* out = nullptr;
    Waiter* waiter = nullptr;
  };
  struct Meeting {
    int64_t run = 0;
    int64_t op = 0;
    int kind = 0;
    size_t come = 0;
    std::vector<Seat> seats;  // by rank
    bool Is(const xla::RendezvousKey& key) const {
      return run == key.run_id.ToInt() && op == key.op_id && kind == static_cast<int>(key.collective_op_kind);
    }
  };

  // Takes a seat. Returns the meeting if it was the last seat; nullopt: the caller must wait.
  std::optional<Meeting> Join(const xla::RendezvousKey& key, size_t rank, Seat seat) {
    absl::MutexLock lock(&mu_);
    auto it = Find(key);
    if (it == open_.end()) {
      it =
          open_.insert(open_.end(), Meeting{key.run_id.ToInt(), key.op_id, static_cast<int>(key.collective_op_kind), 0, Spare()});
    }
    it->seats[rank] = seat;
    if (++it->come < size_) return std::nullopt;
    Meeting full = std::move(*it);
    open_.erase(it);
    return full;
  }
  // Returns false if all devices have arrived meanwhile; the last one is then about to notify the waiter.
  bool Leave(const xla::RendezvousKey& key, const Waiter* waiter) {
    absl::MutexLock lock(&mu_);
    const auto it = Find(key);
    if (it == open_.end()) return false;
    for (Seat& seat : it->seats) {
      if (seat.waiter != waiter) continue;
      seat = Seat();
      if (--it->come == 0) open_.erase(it);
      return true;
    }
    return false;
  }
  void Recycle(std::vector<Seat> seats) {
    absl::MutexLock lock(&mu_);
    spare_ = std::move(seats);
  }

 private:
  std::vector<Meeting>::iterator Find(const xla::RendezvousKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::find_if(open_.begin(), open_.end(), [&](const Meeting& meeting) { return meeting.Is(key); });
  }
  std::vector<Seat> Spare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<Seat> seats = std::exchange(spare_, {});
    seats.assign(size_, Seat());
    return seats;
  }

  const size_t size_;
  absl::Mutex mu_;
  std::vector<Meeting> open_ ABSL_GUARDED_BY(mu_);
  std::vector<Seat> spare_ ABSL_GUARDED_BY(mu_);
};

// Reduces in blocks. Reads every input of a block before writing its outputs, because an output may be another rank's input.
void ReduceForAll(const Clique::Meeting& meeting, Reduce reduce, size_t width, size_t count) {
  Ranks inputs;
  for (const Clique::Seat& seat : meeting.seats) inputs.push_back(seat.in);
  alignas(64) char block[kBlockBytes];
  const size_t step = kBlockBytes / width;
  for (size_t done = 0; done < count; done += step) {
    const size_t n = std::min(step, count - done);
    reduce(inputs, done * width, n, block);
    for (const Clique::Seat& seat : meeting.seats) std::memcpy(seat.out + done * width, block, n * width);
  }
}

class Communicator final : public xla::cpu::InProcessCommunicator {
 public:
  Communicator(std::shared_ptr<Clique> clique, size_t rank, size_t size)
      : InProcessCommunicator(rank, size), clique_(std::move(clique)), rank_(rank) {}

  xla::Future<> AllReduce(stream_executor::DeviceAddressBase send, stream_executor::DeviceAddressBase receive,
                          xla::PrimitiveType type, size_t count, xla::ReductionKind kind, const Executor& executor) override {
    if (!ReducesHere(type, kind, count)) return InProcessCommunicator::AllReduce(send, receive, type, count, kind, executor);
    absl::StatusOr<const xla::cpu::CpuCollectives::Executor*> cpu = xla::cpu::CpuCollectives::TryCast(&executor);
    if (!cpu.ok()) return xla::Future<>(cpu.status());
    const xla::RendezvousKey& key = (*cpu)->rendezvous_key();
    Waiter waiter;
    std::optional<Clique::Meeting> full =
        clique_->Join(key, rank_, {static_cast<const char*>(send.opaque()), static_cast<char*>(receive.opaque()), &waiter});
    if (!full.has_value()) return xla::Future<>(Await(key, waiter));
    ReduceForAll(*full, FindReduce(type, kind), WidthOf(type), count);
    for (Clique::Seat& seat : full->seats) {
      if (seat.waiter != &waiter) seat.waiter->Notify();
    }
    clique_->Recycle(std::move(full->seats));
    return xla::Future<>(absl::OkStatus());
  }

 private:
  absl::Status Await(const xla::RendezvousKey& key, Waiter& waiter) {
    if (waiter.Wait()) return absl::OkStatus();
    if (!clique_->Leave(key, &waiter)) {
      while (!waiter.Wait()) std::this_thread::yield();
      return absl::OkStatus();
    }
    return absl::CancelledError("another device of the same launch failed before it came to this all-reduce");
  }

  const std::shared_ptr<Clique> clique_;
  const size_t rank_;
};

class Collectives final : public xla::cpu::CpuCollectives {
 public:
  // Called by XLA for one rank at a time, on the threads of the devices.
  absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>> CreateCommunicators(const xla::CliqueKey& key,
                                                                                      const std::optional<xla::CliqueIds>& ids,
                                                                                      absl::Span<const DeviceRank> ranks,
                                                                                      const Config& config) final {
    std::shared_ptr<Clique> clique;
    {
      absl::MutexLock lock(&mu_);
      std::shared_ptr<Clique>& entry = cliques_[std::vector<xla::GlobalDeviceId>(key.devices().begin(), key.devices().end())];
      if (entry == nullptr) entry = std::make_shared<Clique>(key.num_devices());
      clique = entry;
    }
    std::vector<std::unique_ptr<xla::Communicator>> result;
    for (const DeviceRank& rank : ranks) {
      result.push_back(std::make_unique<Communicator>(clique, rank.rank.value(), key.num_devices()));
    }
    return result;
  }

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::vector<xla::GlobalDeviceId>, std::shared_ptr<Clique>> cliques_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

bool ReducesHere(xla::PrimitiveType type, xla::ReductionKind kind, size_t count) {
  return FindReduce(type, kind) != nullptr && count * WidthOf(type) <= kMostBytes;
}

std::shared_ptr<xla::cpu::CpuCollectives> MakeInProcessCollectives() { return std::make_shared<Collectives>(); }

}  // namespace pw::pjrt_cpu
