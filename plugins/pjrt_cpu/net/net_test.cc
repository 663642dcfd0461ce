// Tests groups: several processes simulated in this one, each with its own wire.
#include <algorithm>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/pjrt_cpu/net/group.h"
#include "plugins/pjrt_cpu/net/wire.h"

namespace pw::pjrt_cpu {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Wire> OpenWire(const std::string& reachable = "", const std::string& island = "") {
  absl::StatusOr<std::shared_ptr<Wire>> wire = Wire::Open(reachable, island);
  EXPECT_TRUE(wire.ok()) << wire.status().message();
  return *wire;
}

// Processes with several devices. Rank r belongs to process placement[r], and process p to island islands[p] (empty: one island).
class Computation {
 public:
  explicit Computation(std::vector<int> placement, const std::vector<std::string>& islands = {})
      : placement_(std::move(placement)) {
    const int processes = *std::max_element(placement_.begin(), placement_.end()) + 1;
    for (int p = 0; p < processes; ++p) wires_.push_back(OpenWire("", islands.empty() ? "" : islands[p]));
    std::vector<int> next(processes, 0);
    std::vector<Group::Member> members;
    for (int process : placement_) members.push_back({process, next[process]++});
    for (int p = 0; p < processes; ++p) {
      groups_.push_back(std::make_unique<Group>(wires_[p], p, members, [this](int other) { return Address(other); }));
      Group* group = groups_.back().get();
      wires_[p]->SetOnAbort([group](int64_t run, const absl::Status& why) { group->Abort(run, why); });
    }
  }
  ~Computation() {
    for (auto& wire : wires_) wire->SetOnAbort(nullptr);
  }

  int ranks() const { return static_cast<int>(placement_.size()); }
  int processes() const { return static_cast<int>(wires_.size()); }
  Wire& wire(int process) { return *wires_[process]; }
  Group& group(int rank) { return *groups_[placement_[rank]]; }

  // Runs the operation on all ranks at the same time, with the contributions that `bring` returns. Returns the ranks' statuses.
  std::vector<absl::Status> Run(const OperationKey& key, const std::function<Contribution(int rank)>& bring) {
    std::vector<absl::Status> statuses(ranks());
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks(); ++r) threads.emplace_back([&, r] { statuses[r] = group(r).Run(r, key, bring(r)); });
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  int64_t bytes_sent() const {
    int64_t bytes = 0;
    for (const auto& wire : wires_) bytes += wire->traffic().bytes;
    return bytes;
  }
  // Traffic between islands, summed over all processes.
  Wire::Traffic crossed() const {
    Wire::Traffic sum;
    for (const auto& wire : wires_) {
      sum.messages_between_islands += wire->traffic().messages_between_islands;
      sum.bytes_between_islands += wire->traffic().bytes_between_islands;
    }
    return sum;
  }
  int64_t messages_sent() const {
    int64_t messages = 0;
    for (const auto& wire : wires_) messages += wire->traffic().messages;
    return messages;
  }

 private:
  absl::StatusOr<ProcessAddress> Address(int process) const { return wires_[process]->self(); }

  const std::vector<int> placement_;
  std::vector<std::shared_ptr<Wire>> wires_;
  std::vector<std::unique_ptr<Group>> groups_;
};

using Ints = std::vector<int32_t>;

class Groups : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override { computation_ = std::make_unique<Computation>(GetParam()); }

  // Returns numbers that are distinct for each rank.
  static Ints Numbers(int rank, int count) {
    Ints numbers(count);
    for (int i = 0; i < count; ++i) numbers[i] = 1000 * (rank + 1) + i;
    return numbers;
  }
  // Runs an operation with `in` inputs and `out` outputs for each rank.
  std::vector<Ints> Run(GroupOp what, int in, int out, size_t bytes, std::function<void(int, Contribution&)> more = nullptr) {
    const int n = computation_->ranks();
    std::vector<Ints> inputs, outputs(n, Ints(out, -1));
    for (int r = 0; r < n; ++r) inputs.push_back(Numbers(r, in));
    const OperationKey key{++run_, 5, 0, what};
    for (const absl::Status& status : computation_->Run(key, [&](int r) {
           Contribution contribution;
           contribution.in = {reinterpret_cast<const char*>(inputs[r].data())};
           contribution.out = {reinterpret_cast<char*>(outputs[r].data())};
           contribution.bytes = bytes;
           contribution.reduction = FindReduction(xla::S32, xla::ReductionKind::SUM);
           if (more) more(r, contribution);
           return contribution;
         })) {
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return outputs;
  }

  std::unique_ptr<Computation> computation_;
  int64_t run_ = 0;
};

TEST_P(Groups, Reduce) {
  const int n = computation_->ranks();
  for (int count : {0, 1, 7, 10007}) {
    Ints sum(count, 0);
    for (int r = 0; r < n; ++r) {
      for (int i = 0; i < count; ++i) sum[i] += Numbers(r, count)[i];
    }
    for (const Ints& out : Run(GroupOp::kAllReduce, count, count, count * 4)) EXPECT_EQ(out, sum) << count;
  }
}

TEST_P(Groups, ReduceAndScatter) {
  const int n = computation_->ranks(), count = 11;
  const std::vector<Ints> outputs = Run(GroupOp::kReduceScatter, n * count, count, count * 4);
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < count; ++i) {
      int expected = 0;
      for (int from = 0; from < n; ++from) expected += Numbers(from, n * count)[r * count + i];
      EXPECT_EQ(outputs[r][i], expected);
    }
  }
}

TEST_P(Groups, Gather) {
  const int n = computation_->ranks(), count = 3;
  Ints all;
  for (int r = 0; r < n; ++r) {
    for (int number : Numbers(r, count)) all.push_back(number);
  }
  for (const Ints& out : Run(GroupOp::kAllGather, count, n * count, count * 4)) EXPECT_EQ(out, all);
  const int64_t p = computation_->processes();
  EXPECT_EQ(computation_->messages_sent(), p * (p - 1)) << "one from each process to each other, whatever their devices";
}

TEST_P(Groups, ExchangeAllWithAll) {
  const int n = computation_->ranks();
  std::vector<Ints> inputs, outputs(n, Ints(n, -1));
  for (int r = 0; r < n; ++r) inputs.push_back(Numbers(r, n));
  computation_->Run({1, 1, 0, GroupOp::kAllToAll}, [&](int r) {
    Contribution contribution;
    contribution.bytes = 4;
    for (int other = 0; other < n; ++other) {
      contribution.in.push_back(reinterpret_cast<const char*>(&inputs[r][other]));
      contribution.out.push_back(reinterpret_cast<char*>(&outputs[r][other]));
    }
    return contribution;
  });
  for (int r = 0; r < n; ++r) {
    for (int from = 0; from < n; ++from) EXPECT_EQ(outputs[r][from], inputs[from][r]);
  }
}

TEST_P(Groups, PermuteWithAndWithoutASource) {
  const int n = computation_->ranks();
  const std::vector<Ints> outputs = Run(GroupOp::kPermute, 2, 2, 8, [&](int r, Contribution& c) {
    if (r > 0) c.source = r - 1;
    if (r + 1 < n) c.targets = {r + 1};
  });
  EXPECT_THAT(outputs[0], ElementsAre(0, 0));
  for (int r = 1; r < n; ++r) EXPECT_EQ(outputs[r], Numbers(r - 1, 2));
}

TEST_P(Groups, Broadcast) {
  const int root = computation_->ranks() - 1;
  for (const Ints& out : Run(GroupOp::kBroadcast, 4, 4, 16, [&](int, Contribution& c) { c.source = root; }))
    EXPECT_EQ(out, Numbers(root, 4));
}

TEST_P(Groups, OneOperationManyTimesOver) {
  const int n = computation_->ranks(), rounds = 200;
  std::vector<Ints> values(n, Ints{1});
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      for (int i = 0; i < rounds; ++i) {
        Contribution c;
        char* value = reinterpret_cast<char*>(values[r].data());
        c.in = {value};
        c.out = {value};  // in place
        c.bytes = 4;
        c.reduction = FindReduction(xla::S32, xla::ReductionKind::MAX);
        ASSERT_TRUE(computation_->group(r).Run(r, {9, 9, 0, GroupOp::kAllReduce}, c).ok());
        values[r][0] += 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ints& value : values) EXPECT_EQ(value[0], rounds + 1);
}

INSTANTIATE_TEST_SUITE_P(Placements, Groups,
                         ::testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 0, 1},
                                           std::vector<int>{1, 0, 0, 2, 1, 2, 2}, std::vector<int>{0, 1},
                                           std::vector<int>{2, 1, 0}, std::vector<int>{0, 0, 0}));

TEST(GroupTraffic, ALargeSumSendsTheLeastThereIs) {
  Computation computation({0, 0, 1, 1, 2, 2});
  constexpr int kCount = 3 * 4096;
  std::vector<Ints> values(6, Ints(kCount, 1));
  computation.Run({1, 1, 0, GroupOp::kAllReduce}, [&](int r) {
    Contribution c;
    c.in = {reinterpret_cast<const char*>(values[r].data())};
    c.out = {reinterpret_cast<char*>(values[r].data())};
    c.bytes = kCount * 4;
    c.reduction = FindReduction(xla::S32, xla::ReductionKind::SUM);
    return c;
  });
  EXPECT_EQ(values[5][kCount - 1], 6);
  EXPECT_EQ(computation.bytes_sent(), 3 * 2 * (kCount * 4 / 3) * 2) << "2 (P-1)/P of the data for each of 3 processes";
}

// Islands with different numbers of devices and processes, in mixed order.
struct Islands {
  std::vector<int> placement;
  std::vector<std::string> of_process;
  int count;
  bool even = true;  // all islands have equally many processes
};

class IslandTraffic : public ::testing::TestWithParam<Islands> {
 protected:
  IslandTraffic() : computation_(GetParam().placement, GetParam().of_process), ranks_(computation_.ranks()) {}

  // Each rank contributes `blocks_in` blocks of kBytes and gets `blocks_out`. Returns the traffic between islands.
  Wire::Traffic Crossed(GroupOp what, int blocks_in, int blocks_out, size_t bytes) {
    const size_t numbers = kBytes / sizeof(int32_t);
    std::vector<Ints> in(ranks_, Ints(blocks_in * numbers, 1)), out(ranks_, Ints(blocks_out * numbers, -1));
    for (const absl::Status& status : computation_.Run({1, 1, 0, what}, [&](int r) {
           Contribution c;
           const int each_in = what == GroupOp::kAllToAll ? blocks_in : 1;
           for (int i = 0; i < each_in; ++i) {
             c.in.push_back(reinterpret_cast<const char*>(in[r].data() + i * numbers));
             c.out.push_back(reinterpret_cast<char*>(out[r].data() + i * numbers));
           }
           c.bytes = bytes;
           c.reduction = FindReduction(xla::S32, xla::ReductionKind::SUM);
           if (what == GroupOp::kBroadcast) c.source = ranks_ - 1;
           if (what == GroupOp::kPermute) c.source = (r + ranks_ - 1) % ranks_, c.targets = {(r + 1) % ranks_};
           return c;
         })) {
      EXPECT_TRUE(status.ok()) << status.message();
    }
    const bool sums = what == GroupOp::kAllReduce || what == GroupOp::kReduceScatter;
    for (const Ints& numbers_of : out) EXPECT_THAT(numbers_of, ::testing::Each(sums ? ranks_ : 1));
    return computation_.crossed();
  }
  bool apart(int a, int b) const {
    const auto island = [](int r) { return GetParam().of_process[GetParam().placement[r]]; };
    return island(a) != island(b);
  }
  int64_t others() const { return GetParam().count - 1; }
  int64_t processes() const { return computation_.processes(); }
  // Expects exactly this number of messages between islands of equal size: one for each process and counterpart in a step.
  // Otherwise at most one for each pair and step.
  void ExpectMessages(int64_t messages, int64_t steps) {
    if (GetParam().even) {
      EXPECT_EQ(messages, steps * others() * processes());
    } else {
      EXPECT_LE(messages, steps * PairsApart());
    }
  }
  int64_t PairsApart() const {
    const std::vector<std::string>& of = GetParam().of_process;
    int64_t pairs = 0;
    for (const std::string& a : of) pairs += std::count_if(of.begin(), of.end(), [&](const std::string& b) { return a != b; });
    return pairs;
  }

  static constexpr int64_t kBytes = 4 * 5040;  // divides by any number of processes here
  Computation computation_;
  const int ranks_;
};

TEST_P(IslandTraffic, ASumCrossesOnceThereAndOnceBack) {
  const Wire::Traffic crossed = Crossed(GroupOp::kAllReduce, 1, 1, kBytes);
  EXPECT_EQ(crossed.bytes_between_islands, 2 * others() * kBytes);
  ExpectMessages(crossed.messages_between_islands, 2);
}

TEST_P(IslandTraffic, ASumThatIsScatteredCrossesOnce) {
  const Wire::Traffic crossed = Crossed(GroupOp::kReduceScatter, ranks_, 1, kBytes);
  EXPECT_EQ(crossed.bytes_between_islands, others() * ranks_ * kBytes);
  ExpectMessages(crossed.messages_between_islands, 1);
}

TEST_P(IslandTraffic, WhatIsGatheredCrossesToEachIslandOnce) {
  const Wire::Traffic crossed = Crossed(GroupOp::kAllGather, 1, ranks_, kBytes);
  EXPECT_EQ(crossed.bytes_between_islands, others() * ranks_ * kBytes);
  ExpectMessages(crossed.messages_between_islands, 1);
}

TEST_P(IslandTraffic, WhatIsBroadcastCrossesToEachIslandOnce) {
  const Wire::Traffic crossed = Crossed(GroupOp::kBroadcast, 1, 1, kBytes);
  EXPECT_EQ(crossed.bytes_between_islands, others() * kBytes);
  EXPECT_EQ(crossed.messages_between_islands, others());
}

TEST_P(IslandTraffic, OfAnExchangeOfAllWithAllOnlyWhatIsForOtherIslandsCrosses) {
  int64_t pairs = 0;
  for (int a = 0; a < ranks_; ++a) {
    for (int b = 0; b < ranks_; ++b) pairs += apart(a, b) ? 1 : 0;
  }
  EXPECT_EQ(Crossed(GroupOp::kAllToAll, ranks_, ranks_, kBytes).bytes_between_islands, pairs * kBytes);
}

TEST_P(IslandTraffic, SoItIsOfAPermutation) {
  int64_t pairs = 0;
  for (int r = 0; r < ranks_; ++r) pairs += apart(r, (r + 1) % ranks_) ? 1 : 0;
  EXPECT_EQ(Crossed(GroupOp::kPermute, 1, 1, kBytes).bytes_between_islands, pairs * kBytes);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, IslandTraffic,
    ::testing::Values(Islands{{0, 0, 1, 1}, {"a", "b"}, 2}, Islands{{0, 0, 1, 1, 2, 2, 3, 3}, {"a", "a", "b", "b"}, 2},
                      Islands{{0, 1, 2, 3, 0, 2, 2}, {"a", "b", "b", "a"}, 2}, Islands{{0, 1, 1, 2}, {"a", "b", "c"}, 3},
                      Islands{{0, 1, 2, 3, 4, 5}, {"a", "b", "c", "a", "b", "c"}, 3},
                      Islands{{0, 0, 1, 1, 2, 2}, {"a", "a", "b"}, 2, false}, Islands{{0, 1, 2, 0}, {"b", "a", "a"}, 2, false},
                      Islands{{0, 1, 1, 2, 3, 4, 4, 4}, {"a", "b", "a", "b", "a"}, 2, false},
                      Islands{{0, 1, 2, 3, 4, 5, 6}, {"a", "b", "a", "c", "a", "b", "a"}, 3, false}));

// Sums that do not divide evenly into parts, in islands of different sizes. Every rank has distinct numbers, so that a missing or
// doubled contribution shows.
TEST(UnevenIslands, SumsAreRightAtEverySize) {
  const std::vector<std::vector<std::string>> shapes = {
      {"a", "a", "b"}, {"a", "b", "b", "b"}, {"a", "a", "a", "a", "b", "b", "b"}, {"a", "b", "b", "c", "c", "c"}};
  for (const std::vector<std::string>& shape : shapes) {
    std::vector<int> placement(shape.size());
    std::iota(placement.begin(), placement.end(), 0);
    placement.push_back(0);  // one more device in the first process
    Computation computation(placement, shape);
    int64_t run = 0;
    for (int count : {0, 1, 2, 7, 101}) {
      std::vector<Ints> in, out(computation.ranks(), Ints(count, -1));
      Ints sum(count, 0);
      for (int r = 0; r < computation.ranks(); ++r) {
        in.emplace_back(count);
        for (int i = 0; i < count; ++i) sum[i] += in[r][i] = (1 << r) + i;
      }
      for (const absl::Status& status : computation.Run({++run, 1, 0, GroupOp::kAllReduce}, [&](int r) {
             Contribution c;
             c.in = {reinterpret_cast<const char*>(in[r].data())};
             c.out = {reinterpret_cast<char*>(out[r].data())};
             c.bytes = count * sizeof(int32_t);
             c.reduction = FindReduction(xla::S32, xla::ReductionKind::SUM);
             return c;
           })) {
        EXPECT_TRUE(status.ok()) << status.message();
      }
      for (const Ints& numbers : out) EXPECT_EQ(numbers, sum) << shape.size() << " processes, " << count;
    }
    const int64_t islands = shape.back() == "c" ? 3 : 2;
    EXPECT_EQ(computation.crossed().bytes_between_islands, 2 * (islands - 1) * (1 + 2 + 7 + 101) * 4);
  }
}

TEST(GroupFaults, AnAbortFreesWhoWaitsHereAndThere) {
  Computation computation({0, 0, 1});
  int32_t value = 1;
  auto contribution = [&] {
    Contribution c;
    c.in = {reinterpret_cast<const char*>(&value)};
    c.out = {reinterpret_cast<char*>(&value)};
    c.bytes = 4;
    c.reduction = FindReduction(xla::S32, xla::ReductionKind::SUM);
    return c;
  };
  const OperationKey key{3, 1, 0, GroupOp::kAllReduce};
  // Rank 1 never arrives: rank 0 waits in its process, rank 2 for the other process.
  auto here = std::async(std::launch::async, [&] { return computation.group(0).Run(0, key, contribution()); });
  auto there = std::async(std::launch::async, [&] { return computation.group(2).Run(2, key, contribution()); });
  ASSERT_TRUE(computation.wire(0).Connect(computation.wire(1).self()).ok());
  computation.wire(0).Abort(3, absl::InternalError("rank 1 failed"));
  EXPECT_EQ(here.get(), absl::InternalError("rank 1 failed"));
  EXPECT_EQ(there.get(), absl::InternalError("rank 1 failed"));
  EXPECT_EQ(computation.group(0).Run(1, key, contribution()), absl::InternalError("rank 1 failed")) << "whoever comes later";
}

TEST(Reductions, EveryTypeHasWhatItCanHave) {
  for (int t = xla::PrimitiveType_MIN; t <= xla::PrimitiveType_MAX; ++t) {
    const auto type = static_cast<xla::PrimitiveType>(t);
    const Reduction sum = FindReduction(type, xla::ReductionKind::SUM), least = FindReduction(type, xla::ReductionKind::MIN);
    const bool complex = type == xla::C64 || type == xla::C128;
    EXPECT_EQ(least.into != nullptr, sum.into != nullptr && !complex) << t;
  }
  double a = 1, b = std::nan("");
  FindReduction(xla::F64, xla::ReductionKind::MAX).into(reinterpret_cast<char*>(&a), reinterpret_cast<char*>(&b), 1);
  EXPECT_NE(a, a) << "not a number wins";
  bool x = true, y = false;
  FindReduction(xla::PRED, xla::ReductionKind::MIN).into(reinterpret_cast<char*>(&x), reinterpret_cast<char*>(&y), 1);
  EXPECT_FALSE(x);
  int8_t i = 127, j = 1;
  FindReduction(xla::S8, xla::ReductionKind::SUM).into(reinterpret_cast<char*>(&i), reinterpret_cast<char*>(&j), 1);
  EXPECT_EQ(i, -128) << "wraps around";
}

}  // namespace
}  // namespace pw::pjrt_cpu
