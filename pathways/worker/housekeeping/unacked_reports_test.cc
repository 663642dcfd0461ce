#include "pathways/worker/housekeeping/unacked_reports.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kBegin = absl::UnixEpoch();

pathways::v1::Done Of(uint64_t op) {
  pathways::v1::Done done;
  done.add_ok(op);
  return done;
}

std::vector<uint64_t> Ops(const std::vector<pathways::v1::Done>& reports) {
  std::vector<uint64_t> ops;
  for (const auto& done : reports) ops.insert(ops.end(), done.ok().begin(), done.ok().end());
  return ops;
}

TEST(UnackedReports, KeepsWhatHasNotBeenSeen) {
  UnackedReports reports;
  EXPECT_TRUE(reports.empty());
  EXPECT_EQ(reports.Add(Of(11), kBegin), 1u);
  EXPECT_EQ(reports.Add(Of(13), kBegin + absl::Seconds(1)), 2u);
  EXPECT_EQ(reports.Add(Of(15), kBegin + absl::Seconds(2)), 3u);
  EXPECT_EQ(reports.oldest(), kBegin);
  reports.Seen(1);
  EXPECT_EQ(reports.oldest(), kBegin + absl::Seconds(1));
  reports.Seen(1);
  EXPECT_FALSE(reports.in_doubt());
  EXPECT_THAT(Ops(reports.Take()), ElementsAre(13, 15));
  EXPECT_TRUE(reports.empty());
  EXPECT_THAT(Ops(reports.Take()), IsEmpty());
}

TEST(UnackedReports, AWayIsInDoubtUntilWhatWasTakenOutHasComeByIt) {
  UnackedReports reports;
  reports.Add(Of(1), kBegin);
  reports.Add(Of(3), kBegin);
  reports.Take();
  EXPECT_TRUE(reports.in_doubt());
  reports.Seen(1);
  EXPECT_TRUE(reports.in_doubt()) << "the second is still missing";
  reports.Seen(2);
  EXPECT_FALSE(reports.in_doubt()) << "it was slow";
}

TEST(UnackedReports, NothingTakenOutIsNoReasonForDoubt) {
  UnackedReports reports;
  reports.Add(Of(1), kBegin);
  reports.Seen(1);
  reports.Take();
  EXPECT_FALSE(reports.in_doubt());
}

TEST(UnackedReports, AnotherWayIsTrusted) {
  UnackedReports reports;
  reports.Add(Of(1), kBegin);
  reports.Take();
  reports.Trust();
  EXPECT_FALSE(reports.in_doubt());
  EXPECT_EQ(reports.Add(Of(3), kBegin), 2u) << "numbers go on: a late word of the old way means nothing here";
  reports.Seen(1);
  EXPECT_THAT(Ops(reports.Take()), ElementsAre(3));
}

TEST(UnackedReports, WhatIsYetToComeIsNeverSeen) {
  UnackedReports reports;
  reports.Seen(UINT64_MAX);
  reports.Add(Of(1), kBegin);
  EXPECT_FALSE(reports.empty());
  reports.Seen(UINT64_MAX);
  EXPECT_TRUE(reports.empty());
  reports.Add(Of(3), kBegin);
  EXPECT_FALSE(reports.empty());
}

}  // namespace
}  // namespace pw::worker
