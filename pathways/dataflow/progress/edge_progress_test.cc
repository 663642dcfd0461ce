#include "pathways/dataflow/progress/edge_progress.h"

#include <deque>
#include <map>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::dataflow {
namespace {

using Effects = EdgeProgress::Effects;
using testing::IsEmpty;
using testing::SizeIs;

// All hosts of one edge, and a network that delivers reports in order.
class EdgeWorld {
 public:
  EdgeWorld(EdgeKind kind, Placement from, Placement to) : EdgeWorld(EdgeRules{kind}, std::move(from), std::move(to)) {}
  EdgeWorld(const EdgeRules& rules, Placement from, Placement to) : from_(std::move(from)), to_(std::move(to)) {
    const HostSet hosts = from_.hosts().Union(to_.hosts());
    for (uint32_t i = 0; i < hosts.size(); ++i) {
      Part& part = parts_[hosts.At(i)];
      part.plan = std::make_unique<EdgePlan>(rules, from_, to_, hosts.At(i), ProgressKnobs{});
      part.progress = std::make_unique<EdgeProgress>(part.plan.get());
    }
  }

  void Send(uint32_t source, uint32_t destination) {
    const HostId from = from_.HostOf(source);
    Deliver(from, parts_[from].progress->Sent(source, destination), destination);
  }
  void Lose(HostId host) {
    for (auto& [other, part] : parts_) {
      if (other == host) continue;
      Effects effects;
      part.progress->LoseHost(host, absl::UnavailableError("lost"), &effects);
      Apply(other, effects);
    }
  }
  void Done(uint32_t source, const absl::Status& status = absl::OkStatus()) {
    Effects effects;
    parts_[from_.HostOf(source)].progress->SourceDone(source, status, &effects);
    Apply(from_.HostOf(source), effects);
  }
  void AllDone() {
    for (uint32_t s = 0; s < from_.num_shards(); ++s) Done(s);
  }

  EdgeProgress& at(HostId host) { return *parts_[host].progress; }
  const EdgePlan& plan(HostId host) { return *parts_[host].plan; }

  std::map<uint32_t, absl::Status> closed;
  size_t reports = 0;
  std::map<HostId, size_t> heard;

 private:
  struct Part {
    std::unique_ptr<EdgePlan> plan;
    std::unique_ptr<EdgeProgress> progress;
  };
  void Deliver(HostId from, uint64_t sequence, uint32_t destination, const absl::Status& error = absl::OkStatus()) {
    const HostId to = to_.HostOf(destination);
    Effects effects;
    auto fresh = parts_[to].progress->Received(from, sequence, destination, error, &effects);
    ASSERT_TRUE(fresh.ok() && *fresh) << fresh.status();
    Apply(to, effects);
  }
  void Apply(HostId host, const Effects& effects) {
    for (const auto& [destination, sequence, error] : effects.substitutes) Deliver(host, sequence, destination, error);
    for (const auto& c : effects.closed) closed[c.shard] = c.status;
    for (const auto& outgoing : effects.reports) {
      ++reports;
      ++heard[outgoing.to];
      Effects next;
      ASSERT_TRUE(parts_[outgoing.to].progress->OnReport(host, outgoing.report, &next).ok());
      Apply(outgoing.to, next);
    }
  }

  const Placement from_, to_;
  std::map<HostId, Part> parts_;
};

Placement Across(uint32_t hosts, uint32_t shards_per_host) { return Placement::Uniform(HostId(0), hosts, shards_per_host); }

TEST(EdgeProgress, WaitsForTheLastShardOfAHostAndTheLastMessage) {
  EdgeWorld world(EdgeKind::kGather, Across(2, 2), Placement::OnHost(HostId(7)));
  world.Send(0, 0);
  world.Done(0);
  world.Done(2);
  world.Done(3);
  EXPECT_THAT(world.closed, IsEmpty());
  world.Send(1, 0);
  world.Done(1);
  EXPECT_THAT(world.closed, SizeIs(1));
  EXPECT_EQ(world.reports, 2u);  // one for each source host, none for each shard
  EXPECT_TRUE(world.at(HostId(7)).finished());
}

TEST(EdgeProgress, AnErrorPoisonsTheShardsThatDependOnIt) {
  EdgeWorld one_to_one(EdgeKind::kOneToOne, Across(2, 2), Placement::Uniform(HostId(5), 2, 2));
  for (uint32_t s = 0; s < 4; ++s) one_to_one.Done(s, s == 2 ? absl::AbortedError("two") : absl::OkStatus());
  EXPECT_EQ(one_to_one.closed[2], absl::AbortedError("two"));
  EXPECT_TRUE(one_to_one.closed[1].ok() && one_to_one.closed[3].ok());

  EdgeWorld sparse(EdgeKind::kSparse, Across(2, 2), Across(3, 1));
  for (uint32_t s = 4; s-- > 0;) sparse.Done(s, s > 1 ? absl::AbortedError(std::to_string(s)) : absl::OkStatus());
  for (uint32_t s = 0; s < 3; ++s) EXPECT_EQ(sparse.closed[s], absl::AbortedError("2"));  // of the lowest shard that failed
}

TEST(EdgeProgress, OnlyDestinationsThatWereSentToAreCounted) {
  EdgeWorld world(EdgeKind::kSparse, Across(1, 1), Across(64, 32));
  world.Send(0, 77);
  Effects effects;
  world.at(HostId(0)).SourceDone(0, absl::OkStatus(), &effects);
  size_t counted = 0;
  for (const auto& outgoing : effects.reports) counted += outgoing.report.counts.stretches().size();
  EXPECT_EQ(counted, 1u);
}

// EP-1. 2048 shards on 256 hosts, every kind of edge: at most two reports per host, and no host receives more than the fan-in
// allows.
TEST(EdgeProgress, ReportsAreAFewForEachHostWhateverTheShards) {
  for (uint32_t shards_per_host : {1u, 8u}) {
    const Placement wide = Across(256, shards_per_host), one = Placement::OnHost(HostId(9));
    EdgeWorld aligned(EdgeKind::kOneToOne, wide, wide),
        moved(EdgeKind::kOneToOne, wide, Placement::Uniform(HostId(1), 256, shards_per_host));
    EdgeWorld gather(EdgeKind::kGather, wide, one), scatter(EdgeKind::kScatter, one, wide);
    EdgeWorld sparse(EdgeKind::kSparse, wide, wide), all(EdgeKind::kAllToAll, wide, wide);
    for (EdgeWorld* world : {&aligned, &moved, &gather, &scatter, &sparse, &all}) {
      const bool from_one = world == &scatter;
      from_one ? world->Done(0) : world->AllDone();
      EXPECT_EQ(world->closed.size(), world == &gather ? 1u : wide.num_shards());
      for (const auto& [host, count] : world->heard) EXPECT_LE(count, 2u * 63 + 3) << ToString(host);
    }
    EXPECT_EQ(aligned.reports, 0u);  // nothing leaves a host
    EXPECT_EQ(moved.reports, 256u);
    EXPECT_EQ(gather.reports, 255u + 1);
    EXPECT_EQ(scatter.reports, 1u + 255);
    EXPECT_EQ(sparse.reports, 2u * 255);
    EXPECT_EQ(all.reports, 2u * 255);
  }
}

TEST(EdgeProgress, FewHostsReportToEachOtherInOneHop) {
  EdgeWorld world(EdgeKind::kAllToAll, Across(8, 4), Across(8, 4));
  world.AllDone();
  EXPECT_EQ(world.reports, 8u * 7);
  EdgeWorld tree(EdgeKind::kAllToAll, Across(9, 4), Across(9, 4));
  tree.AllDone();
  EXPECT_EQ(tree.reports, 2u * 8);
}

TEST(EdgeProgress, WhatDoesNotFitThePlanIsRefused) {
  EdgeWorld world(EdgeKind::kOneToOne, Across(2, 2), Across(2, 2));
  EdgeProgress& progress = world.at(HostId(0));
  Effects effects;
  EXPECT_FALSE(progress.Received(HostId(1), 1, 0, {}, &effects).ok());  // not the sender of that shard
  EXPECT_FALSE(progress.Received(HostId(0), 1, 2, {}, &effects).ok());  // not a shard of this host
  EXPECT_FALSE(progress.Received(HostId(0), 1, 77, {}, &effects).ok());
  Report report;
  EXPECT_FALSE(progress.OnReport(HostId(1), report, &effects).ok());  // does not report here
  EXPECT_FALSE(progress.OnReport(HostId(0), report, &effects).ok());  // in the name of this host itself
  report.way = Report::Way::kUp;
  EXPECT_FALSE(progress.OnReport(HostId(1), report, &effects).ok());

  EdgeWorld gather(EdgeKind::kGather, Across(2, 2), Across(1, 1));
  Report bad;
  bad.counts.Append({5, 1, 1});
  EXPECT_FALSE(gather.at(HostId(0)).OnReport(HostId(1), bad, &effects).ok());
  bad = {};
  bad.poisons = {{9, absl::AbortedError("")}};
  EXPECT_FALSE(gather.at(HostId(0)).OnReport(HostId(1), bad, &effects).ok());
  bad.poisons = {{1, absl::OkStatus()}};
  EXPECT_FALSE(gather.at(HostId(0)).OnReport(HostId(1), bad, &effects).ok());
  EXPECT_THAT(effects.closed, IsEmpty());
}

// Tuples alone close single edges of every kind, on the host that has them all.
TEST(EdgeProgress, ASingleEdgeClosesWithItsLastTupleAndHasNoReports) {
  EdgeWorld one_to_one(EdgeRules{EdgeKind::kOneToOne, true}, Across(4, 2), Placement::Uniform(HostId(2), 4, 2));
  for (uint32_t s = 0; s < 8; ++s) {
    one_to_one.Send(s, s);
    EXPECT_EQ(one_to_one.closed.size(), s + 1);
  }
  EdgeWorld gather(EdgeRules{EdgeKind::kGather, true}, Across(2, 2), Across(1, 1));
  for (uint32_t s = 0; s < 4; ++s) {
    EXPECT_THAT(gather.closed, IsEmpty());
    gather.Send(s, 0);
  }
  EXPECT_THAT(gather.closed, SizeIs(1));
  EdgeWorld all(EdgeRules{EdgeKind::kAllToAll, true}, Across(2, 1), Across(3, 1));
  for (uint32_t s = 0; s < 2; ++s) {
    EXPECT_THAT(all.closed, IsEmpty());
    for (uint32_t d = 0; d < 3; ++d) all.Send(s, d);
  }
  EXPECT_THAT(all.closed, SizeIs(3));
  for (EdgeWorld* world : {&one_to_one, &gather, &all}) {
    world->AllDone();
    EXPECT_EQ(world->reports, 0u);
  }
  EXPECT_TRUE(all.at(HostId(2)).finished() && gather.at(HostId(1)).finished());
}

TEST(EdgeProgress, AShardThatFailsSendsItsErrorInPlaceOfWhatItHasNotSent) {
  EdgeWorld world(EdgeRules{EdgeKind::kAllToAll, true}, Across(2, 1), Across(3, 1));
  EXPECT_TRUE(world.at(HostId(0)).MaySend(0, 1));
  world.Send(0, 1);
  EXPECT_FALSE(world.at(HostId(0)).MaySend(0, 1));
  EXPECT_FALSE(world.at(HostId(0)).HasSentAll(0));
  world.Done(1, absl::AbortedError("one"));
  world.Done(0, absl::AbortedError("zero"));
  EXPECT_EQ(world.closed[0], absl::AbortedError("zero"));  // of the lowest shard, though it came later
  EXPECT_EQ(world.closed[1], absl::AbortedError("one"));
  EXPECT_EQ(world.closed[2], absl::AbortedError("zero"));
}

TEST(EdgeProgress, TheNumberOfATupleOfASingleEdgeNamesItsPair) {
  EdgeWorld world(EdgeRules{EdgeKind::kAllToAll, true}, Across(2, 2), Across(2, 1));
  EdgeProgress& progress = world.at(HostId(0));
  Effects effects;
  const auto from_one = [&](uint64_t sequence) { return progress.Received(HostId(1), sequence, 0, {}, &effects); };
  for (uint64_t sequence : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{6}, uint64_t{9}, UINT64_MAX})
    EXPECT_FALSE(from_one(sequence).ok()) << sequence;  // shards of host 0, another destination, no shard at all
  EXPECT_TRUE(*from_one(5));
  EXPECT_FALSE(*from_one(5));
  EXPECT_TRUE(*from_one(7));
  EXPECT_FALSE(progress.OnReport(HostId(1), Report(), &effects).ok());
  EXPECT_THAT(effects.closed, IsEmpty());
}

TEST(EdgeProgress, ALostHostFailsTheShardsThatMissSomething) {
  const absl::Status lost = absl::UnavailableError("lost");
  for (bool single : {false, true}) {
    const EdgeRules rules{EdgeKind::kAllToAll, single, true};
    EdgeWorld world(rules, Placement::Uniform(HostId(0), 2, 1), Placement::Uniform(HostId(2), 2, 1));
    world.Send(0, 0);
    world.Send(1, 0);
    world.Send(1, 1);
    world.Lose(HostId(0));
    world.Done(1);
    // Without reports, the shard that has its only tuple misses nothing.
    EXPECT_EQ(world.closed[0], single ? absl::OkStatus() : lost);
    EXPECT_EQ(world.closed[1], lost);
    EXPECT_TRUE(world.at(HostId(2)).finished() && world.at(HostId(3)).finished());
    world.Lose(HostId(0));  // once more
    EXPECT_EQ(world.closed.size(), 2u);
  }
  EdgeWorld one_to_one(EdgeRules{EdgeKind::kOneToOne, false, true}, Across(2, 2), Placement::Uniform(HostId(2), 2, 2));
  one_to_one.Done(0);
  one_to_one.Done(1);
  one_to_one.Lose(HostId(0));  // it has reported
  one_to_one.Lose(HostId(1));
  for (uint32_t s = 0; s < 4; ++s) EXPECT_EQ(one_to_one.closed[s], s < 2 ? absl::OkStatus() : lost);
}

// All hosts report to each other: a sum that waits on a lost host would be lost with it.
TEST(EdgeProgress, ReportsOfAGraphThatOutlivesItsHostsAreDirect) {
  EdgeWorld world(EdgeRules{EdgeKind::kSparse, false, true}, Across(20, 1), Across(20, 1));
  world.AllDone();
  EXPECT_EQ(world.reports, 20u * 19);
}

}  // namespace
}  // namespace pw::dataflow
