#include "pathways/worker/route/row_split.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Rows of 2 bytes: 10 to 13 and 20 to 22. Experts 0 and 1 are at receiver 0, 2 at receivers 1 and 2.
v1::RouteSender SplitConfig(bool back = false, int64_t capacity = 8) {
  v1::RouteSender config;
  config.set_back(back);
  config.set_row_bytes(2);
  config.set_capacity(capacity);
  for (auto [first, count] : {std::pair(10, 4), std::pair(20, 3)}) {
    auto& piece = *config.add_pieces();
    piece.set_first(first);
    piece.set_count(count);
  }
  config.add_targets()->set_count(2);
  config.mutable_targets(0)->add_receivers(0);
  config.add_targets()->set_first(2);
  config.mutable_targets(1)->set_count(1);
  config.mutable_targets(1)->add_receivers(1);
  config.mutable_targets(1)->add_receivers(2);
  return config;
}

struct SentRows {
  v1::RouteRows header;
  std::string rows;
};

SentRows ReadTuple(const Bytes& tuple) {
  const size_t header = tuple.data()[0] + 256 * tuple.data()[1];
  SentRows sent;
  EXPECT_TRUE(sent.header.ParseFromArray(tuple.data() + 4, static_cast<int>(header)));
  sent.rows = std::string(tuple.view().substr(4 + header));
  return sent;
}

std::optional<Bytes> Next(RowSplit& split, uint32_t receiver, size_t most_bytes) {
  absl::StatusOr<std::optional<Bytes>> tuple = split.Next(receiver, most_bytes);
  EXPECT_TRUE(tuple.ok()) << tuple.status();
  return tuple.ok() ? *std::move(tuple) : std::nullopt;
}

TEST(RowSplit, EachReceiverGetsTheRowsOfItsKeysInTheirOrder) {
  auto split = RowSplit::Create(SplitConfig(), 3);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_TRUE(split->Add({{1, -1, 2, 0}}, Bytes::FromString("aabbccdd")).ok());
  ASSERT_TRUE(split->Add({{-1, 1, -1}}, Bytes::FromString("eeffgg")).ok());
  SentRows sent = ReadTuple(*Next(*split, 0, 1 << 20));
  EXPECT_EQ(sent.header.first(), 10);
  EXPECT_THAT(sent.header.keys(), ElementsAre(1, 0));
  EXPECT_THAT(sent.header.rows(), ElementsAre(0, 3));
  EXPECT_EQ(sent.rows, "aadd");
  sent = ReadTuple(*Next(*split, 0, 1 << 20));
  EXPECT_EQ(sent.header.first(), 20);
  EXPECT_THAT(sent.header.rows(), ElementsAre(1));
  EXPECT_EQ(sent.rows, "ff");
  EXPECT_FALSE(Next(*split, 0, 1 << 20).has_value());
  for (uint32_t receiver : {1u, 2u}) {
    EXPECT_EQ(ReadTuple(*Next(*split, receiver, 1 << 20)).rows, "cc");
    EXPECT_FALSE(Next(*split, receiver, 1 << 20).has_value());
  }
  EXPECT_EQ(split->rows_sent(), 5);
}

TEST(RowSplit, AReceiverWithoutRowsGetsNothing) {
  auto split = RowSplit::Create(SplitConfig(), 3);
  ASSERT_TRUE(split->Add({{2, 2, 2, -1}}, Bytes::FromString("aabbccdd")).ok());
  ASSERT_TRUE(split->Add({{-1, -1, -1}}, Bytes::FromString("eeffgg")).ok());
  EXPECT_FALSE(Next(*split, 0, 1 << 20).has_value());
}

TEST(RowSplit, TuplesHaveAFewRowsEach) {
  auto split = RowSplit::Create(SplitConfig(), 3);
  ASSERT_TRUE(split->Add({{0, 1, 0, 1}}, Bytes::FromString("aabbccdd")).ok());
  ASSERT_TRUE(split->Add({{-1, -1, -1}}, Bytes::FromString("eeffgg")).ok());
  EXPECT_EQ(ReadTuple(*Next(*split, 0, 6)).rows, "aabbcc");
  const SentRows rest = ReadTuple(*Next(*split, 0, 6));
  EXPECT_EQ(rest.rows, "dd");
  EXPECT_THAT(rest.header.rows(), ElementsAre(3));
  EXPECT_FALSE(Next(*split, 0, 6).has_value());
}

// Rows are never so large that none fits.
TEST(RowSplit, ATupleHasARowAtLeast) {
  auto split = RowSplit::Create(SplitConfig(), 3);
  ASSERT_TRUE(split->Add({{0, 1, 0, 1}}, Bytes::FromString("aabbccdd")).ok());
  EXPECT_EQ(ReadTuple(*Next(*split, 0, 1)).rows, "aa");
}

TEST(RowSplit, RowsBeyondTheCapacityAreCountedInsteadOfSent) {
  auto split = RowSplit::Create(SplitConfig(false, 1), 3);
  ASSERT_TRUE(split->Add({{0, 0, 1, 0}}, Bytes::FromString("aabbccdd")).ok());
  ASSERT_TRUE(split->Add({{0, -1, -1}}, Bytes::FromString("eeffgg")).ok());
  SentRows sent = ReadTuple(*Next(*split, 0, 1 << 20));
  EXPECT_EQ(sent.rows, "aacc");
  ASSERT_EQ(sent.header.dropped_size(), 1);
  EXPECT_EQ(sent.header.dropped(0).key(), 0);
  EXPECT_EQ(sent.header.dropped(0).rows(), 2);
  sent = ReadTuple(*Next(*split, 0, 1 << 20));
  EXPECT_EQ(sent.rows, "ee") << "each piece by itself: the receiver knows which rows come first";
  EXPECT_THAT(sent.header.dropped(), IsEmpty());
}

TEST(RowSplit, OnTheWayBackEachSlotHasOneRow) {
  auto split = RowSplit::Create(SplitConfig(true, 1), 3);
  ASSERT_TRUE(split->Add({{0, 0, 1, -1}}, Bytes::FromString("aabbccdd")).ok());
  EXPECT_EQ(ReadTuple(*Next(*split, 0, 1 << 20)).rows, "aabbcc");
}

TEST(RowSplit, AKeyOutOfRangeIsAnErrorThatNamesItsRow) {
  auto split = RowSplit::Create(SplitConfig(), 3);
  EXPECT_THAT(std::string(split->Add({{0, 0, 3, 0}}, Bytes::FromString("aabbccdd")).message()),
              HasSubstr("row 12 names expert 3, and there are 3: experts are 0 to 2, or -1"));
  split = RowSplit::Create(SplitConfig(), 3);
  EXPECT_THAT(std::string(split->Add({{0, -2, 0, 0}}, Bytes::FromString("aabbccdd")).message()),
              HasSubstr("row 11 names expert -2"));
  split = RowSplit::Create(SplitConfig(true), 3);
  EXPECT_THAT(std::string(split->Add({{0, 7, 0, 0}}, Bytes::FromString("aabbccdd")).message()),
              HasSubstr("slot 11 names row 7, and there are 3"));
}

TEST(RowSplit, AMalformedConfigIsRefused) {
  const auto refused = [](const v1::RouteSender& config) {
    EXPECT_EQ(RowSplit::Create(config, 3).status().code(), absl::StatusCode::kInvalidArgument);
  };
  v1::RouteSender config = SplitConfig();
  config.set_row_bytes(-1);
  refused(config);
  config = SplitConfig();
  config.mutable_pieces(0)->set_count(-1);
  refused(config);
  config.mutable_pieces(0)->set_count(int64_t{1} << 31);
  refused(config);
  config = SplitConfig();
  config.set_row_bytes(INT64_MAX);
  refused(config);
  config = SplitConfig();
  config.mutable_targets(1)->set_first(3);
  refused(config);
  config = SplitConfig();
  config.mutable_targets(1)->add_receivers(3);
  refused(config);
}

}  // namespace
}  // namespace pw::worker
