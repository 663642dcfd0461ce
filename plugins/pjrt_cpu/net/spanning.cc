#include "plugins/pjrt_cpu/net/spanning.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/all_reduce.h"
#include "plugins/pjrt_cpu/net/group.h"
#include "plugins/pjrt_cpu/status.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"
#include "xla/primitive_util.h"

namespace pw::pjrt_cpu {
namespace {

using Address = stream_executor::DeviceAddressBase;

size_t BytesOf(xla::PrimitiveType type, size_t count) { return count * xla::primitive_util::ByteWidth(type); }

class SpanningCommunicator final : public xla::Communicator {
 public:
  SpanningCommunicator(std::shared_ptr<Group> group, std::unique_ptr<xla::Communicator> local, int rank, size_t size)
      : group_(std::move(group)), local_(std::move(local)), rank_(rank), size_(size) {}

  xla::Future<> AllReduce(Address send, Address receive, xla::PrimitiveType type, size_t count, xla::ReductionKind kind,
                          const Executor& executor) final {
    if (IsLocal(executor)) return local_->AllReduce(send, receive, type, count, kind, executor);
    return Reducing(GroupOp::kAllReduce, send, receive, type, count, kind, executor);
  }

  xla::Future<> ReduceScatter(Address send, Address receive, xla::PrimitiveType type, size_t count, xla::ReductionKind kind,
                              const Executor& executor) final {
    if (IsLocal(executor)) return local_->ReduceScatter(send, receive, type, count, kind, executor);
    return Reducing(GroupOp::kReduceScatter, send, receive, type, count, kind, executor);
  }

  xla::Future<> AllGather(Address send, Address receive, xla::PrimitiveType type, size_t count, const Executor& executor) final {
    if (IsLocal(executor)) return local_->AllGather(send, receive, type, count, executor);
    return Run(GroupOp::kAllGather, Bring(send, receive, type, count), executor);
  }

  xla::Future<> Broadcast(Address send, Address receive, xla::PrimitiveType type, size_t count, xla::RankId root,
                          const Executor& executor) final {
    if (IsLocal(executor)) return local_->Broadcast(send, receive, type, count, root, executor);
    Contribution contribution = Bring(send, receive, type, count);
    contribution.source = static_cast<int>(root.value());
    return Run(GroupOp::kBroadcast, std::move(contribution), executor);
  }

  xla::Future<> CollectivePermute(Address send, Address receive, xla::PrimitiveType type, size_t count,
                                  std::optional<xla::RankId> source, absl::Span<const xla::RankId> targets,
                                  const Executor& executor) final {
    if (IsLocal(executor)) return local_->CollectivePermute(send, receive, type, count, source, targets, executor);
    Contribution contribution = Bring(send, receive, type, count);
    if (source.has_value()) contribution.source = static_cast<int>(source->value());
    for (xla::RankId target : targets) contribution.targets.push_back(static_cast<int>(target.value()));
    return Run(GroupOp::kPermute, std::move(contribution), executor);
  }

  xla::Future<> AllToAll(absl::InlinedVector<Address, 4> send, absl::InlinedVector<Address, 4> receive, xla::PrimitiveType type,
                         size_t count, const Executor& executor) final {
    if (IsLocal(executor)) return local_->AllToAll(std::move(send), std::move(receive), type, count, executor);
    Contribution contribution;
    contribution.bytes = BytesOf(type, count);
    for (const Address& address : send) contribution.in.push_back(static_cast<const char*>(address.opaque()));
    for (const Address& address : receive) contribution.out.push_back(static_cast<char*>(address.opaque()));
    return Run(GroupOp::kAllToAll, std::move(contribution), executor);
  }

  xla::Future<> Send(Address, xla::PrimitiveType, size_t, xla::RankId, const Executor&) final { return NoPairs(); }
  xla::Future<> Recv(Address, xla::PrimitiveType, size_t, xla::RankId, const Executor&) final { return NoPairs(); }

  absl::StatusOr<size_t> NumRanks() const final { return size_; }
  std::string ToString() const final { return absl::StrCat("rank ", rank_, " of ", size_, " in several processes"); }

 private:
  static xla::Future<> NoPairs() {
    return xla::Future<>(
        absl::UnimplementedError("XLA:CPU programs have no send and receive between two devices; use a collective permute"));
  }

  static absl::StatusOr<const xla::RendezvousKey*> KeyOf(const Executor& executor) {
    absl::StatusOr<const xla::cpu::CpuCollectives::Executor*> cpu = xla::cpu::CpuCollectives::TryCast(&executor);
    if (!cpu.ok()) return cpu.status();
    return &(*cpu)->rendezvous_key();
  }

  bool IsLocal(const Executor& executor) const {
    absl::StatusOr<const xla::RendezvousKey*> key = KeyOf(executor);
    return local_ != nullptr && key.ok() && ((*key)->run_id.ToInt() & kSpanningLaunch) == 0;
  }

  static Contribution Bring(const Address& send, const Address& receive, xla::PrimitiveType type, size_t count) {
    Contribution contribution;
    contribution.in = {static_cast<const char*>(send.opaque())};
    contribution.out = {static_cast<char*>(receive.opaque())};
    contribution.bytes = BytesOf(type, count);
    return contribution;
  }

  xla::Future<> Reducing(GroupOp what, const Address& send, const Address& receive, xla::PrimitiveType type, size_t count,
                         xla::ReductionKind kind, const Executor& executor) {
    Contribution contribution = Bring(send, receive, type, count);
    contribution.reduction = FindReduction(type, kind);
    if (contribution.reduction.into == nullptr) {
      return xla::Future<>(absl::UnimplementedError(absl::StrCat("there is no reduction of kind ", kind, " for elements of type ",
                                                                 xla::primitive_util::LowercasePrimitiveTypeName(type))));
    }
    return Run(what, std::move(contribution), executor);
  }

  xla::Future<> Run(GroupOp what, Contribution contribution, const Executor& executor) {
    absl::StatusOr<const xla::RendezvousKey*> key = KeyOf(executor);
    if (!key.ok()) return xla::Future<>(key.status());
    const OperationKey operation{(*key)->run_id.ToInt(), (*key)->op_id, static_cast<int>((*key)->collective_op_kind), what};
    return xla::Future<>(Lasting(group_->Run(rank_, operation, std::move(contribution))));
  }

  const std::shared_ptr<Group> group_;
  const std::unique_ptr<xla::Communicator> local_;  // null if the group has devices of other processes
  const int rank_;
  const size_t size_;
};

class SpanningCollectives final : public xla::cpu::CpuCollectives {
 public:
  explicit SpanningCollectives(std::shared_ptr<Network> network)
      : network_(std::move(network)), local_(MakeInProcessCollectives()) {
    network_->wire()->SetOnAbort([this](int64_t run, const absl::Status& why) {
      for (const std::shared_ptr<Group>& group : Groups()) group->Abort(run, why);
    });
  }
  ~SpanningCollectives() final { network_->wire()->SetOnAbort(nullptr); }

  absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>> CreateCommunicators(const xla::CliqueKey& key,
                                                                                      const std::optional<xla::CliqueIds>& ids,
                                                                                      absl::Span<const DeviceRank> ranks,
                                                                                      const Config& config) final {
    bool here = true;
    std::vector<Group::Member> members;
    for (xla::GlobalDeviceId device : key.devices()) {
      const int process = static_cast<int>(device.value() / xla::kMaxCpuDevicesPerProcess);
      here = here && process == network_->node_id();
      members.push_back({process, static_cast<int>(device.value() % xla::kMaxCpuDevicesPerProcess)});
    }
    std::vector<std::unique_ptr<xla::Communicator>> local(ranks.size());
    if (here) {
      absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>> made = local_->CreateCommunicators(key, ids, ranks, config);
      if (!made.ok()) return made;
      local = *std::move(made);
    }
    const std::shared_ptr<Group> group = GroupOf(key, std::move(members));
    std::vector<std::unique_ptr<xla::Communicator>> result;
    for (size_t i = 0; i < ranks.size(); ++i) {
      result.push_back(std::make_unique<SpanningCommunicator>(group, std::move(local[i]), static_cast<int>(ranks[i].rank.value()),
                                                              key.num_devices()));
    }
    return result;
  }

 private:
  std::shared_ptr<Group> GroupOf(const xla::CliqueKey& key, std::vector<Group::Member> members) {
    absl::MutexLock lock(&mu_);
    std::shared_ptr<Group>& group = groups_[std::vector<xla::GlobalDeviceId>(key.devices().begin(), key.devices().end())];
    if (group == nullptr) {
      group = std::make_shared<Group>(network_->wire(), network_->node_id(), std::move(members),
                                      [network = network_](int process) { return network->AddressOf(process); });
    }
    return group;
  }
  std::vector<std::shared_ptr<Group>> Groups() {
    absl::MutexLock lock(&mu_);
    std::vector<std::shared_ptr<Group>> all;
    for (const auto& [devices, group] : groups_) all.push_back(group);
    return all;
  }

  const std::shared_ptr<Network> network_;
  const std::shared_ptr<xla::cpu::CpuCollectives> local_;
  absl::Mutex mu_;
  absl::flat_hash_map<std::vector<xla::GlobalDeviceId>, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<xla::cpu::CpuCollectives> MakeSpanningCollectives(std::shared_ptr<Network> network) {
  return std::make_shared<SpanningCollectives>(std::move(network));
}

}  // namespace pw::pjrt_cpu
