#include "pathways/worker/housekeeping/report_batch.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

const absl::Time kStart = absl::UnixEpoch();

pathways::v1::Report Numbered(uint64_t number) {
  pathways::v1::Report report;
  report.set_number(number);
  return report;
}

// Returns hosts and numbers: "4:1 7:1".
std::string Text(const pathways::v1::Joined& frame) {
  std::string text;
  for (const auto& report : frame.reports()) absl::StrAppend(&text, text.empty() ? "" : " ", report.host(), ":", report.number());
  return text;
}

TEST(ReportBatch, AreCompleteWhenEachOfTheGroupHasReported) {
  ReportBatch joined;
  joined.SetGroup(3);
  EXPECT_FALSE(joined.complete());
  joined.Add(HostId(4), Numbered(1), kStart);
  joined.Add(HostId(7), Numbered(1), kStart + absl::Seconds(1));
  joined.Add(HostId(4), Numbered(2), kStart + absl::Seconds(2));
  EXPECT_FALSE(joined.complete()) << "two of them, of which one has said more than the other";
  EXPECT_EQ(joined.oldest(), kStart);
  EXPECT_EQ(joined.latest(), kStart + absl::Seconds(2));
  joined.Add(HostId(2), Numbered(9), kStart + absl::Seconds(3));
  EXPECT_TRUE(joined.complete());
  EXPECT_EQ(Text(joined.Take()), "4:1 7:1 4:2 2:9");
  EXPECT_TRUE(joined.empty());
  EXPECT_FALSE(joined.complete());
  joined.Add(HostId(7), Numbered(2), kStart + absl::Seconds(4));
  EXPECT_EQ(joined.oldest(), kStart + absl::Seconds(4));
  EXPECT_EQ(Text(joined.Take()), "7:2");
}

TEST(ReportBatch, WithoutAGroupNobodyWaits) {
  ReportBatch joined;
  EXPECT_FALSE(joined.complete());
  joined.Add(HostId(4), Numbered(1), kStart);
  EXPECT_TRUE(joined.complete());
}

TEST(ReportBatch, AGroupThatHasBecomeSmallerIsComplete) {
  ReportBatch joined;
  joined.SetGroup(3);
  joined.Add(HostId(4), Numbered(1), kStart);
  joined.Add(HostId(5), Numbered(1), kStart);
  EXPECT_FALSE(joined.complete());
  joined.SetGroup(2);
  EXPECT_TRUE(joined.complete());
}

// A report is attributed to the host of its connection, even if it names another host.
TEST(ReportBatch, BearTheHostThatTheyCameFrom) {
  ReportBatch joined;
  pathways::v1::Report report = Numbered(1);
  report.set_host(99);
  joined.Add(HostId(4), report, kStart);
  EXPECT_EQ(Text(joined.Take()), "4:1");
}

}  // namespace
}  // namespace pw::worker
