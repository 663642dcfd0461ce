#include "pathways/worker/route/row_gather.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/route/row_split.h"
#include "pathways/worker/route/try_rows.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// This host has experts 2 and 3; rows are single s32, of 10 in the source.
v1::RouteReceiver GatherConfig(int64_t capacity, bool back = false) {
  v1::RouteReceiver config;
  config.set_back(back);
  config.set_dtype(static_cast<int32_t>(buffers::DType::kS32));
  config.set_source_rows(10);
  config.set_capacity(capacity);
  config.add_tiles()->set_first(2);
  config.mutable_tiles(0)->set_count(2);
  return config;
}

Bytes RowTuple(const v1::RouteRows& header, const std::vector<int32_t>& rows) {
  const std::string text = header.SerializeAsString();
  std::string tuple = {static_cast<char>(text.size()), 0, 0, 0};
  tuple += text;
  return Bytes::FromString(tuple.append(reinterpret_cast<const char*>(rows.data()), 4 * rows.size()));
}

Bytes RowTuple(int64_t first, const std::vector<std::pair<int64_t, int64_t>>& keys_and_rows, const std::vector<int32_t>& rows) {
  v1::RouteRows header;
  header.set_first(first);
  for (const auto& [key, row] : keys_and_rows) {
    header.add_keys(key);
    header.add_rows(row);
  }
  return RowTuple(header, rows);
}

std::vector<int32_t> MadeOf(const RowGather& gather, RowGather::What what, int tile = 0) {
  std::vector<int32_t> values(static_cast<size_t>(gather.BytesOf(tile, what)) / 4, 77);
  gather.Fill(tile, what, reinterpret_cast<uint8_t*>(values.data()));
  return values;
}

TEST(RowGather, RowsHaveTheirSlotsInTheOrderOfTheSource) {
  auto gather = RowGather::Create(GatherConfig(3));
  ASSERT_TRUE(gather.ok()) << gather.status();
  ASSERT_TRUE(gather->Add(RowTuple(5, {{3, 2}, {2, 3}}, {17, 18})).ok());
  ASSERT_TRUE(gather->Add(RowTuple(0, {{3, 1}, {3, 4}}, {11, 14})).ok());
  ASSERT_TRUE(gather->Sort().ok());
  EXPECT_THAT(gather->DimsOf(0, v1::RouteReceiver::ROWS), ElementsAre(2, 3));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::ROWS), ElementsAre(18, 0, 0, 11, 14, 17));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::SLOTS), ElementsAre(8, -1, -1, 1, 4, 7));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::COUNTS), ElementsAre(1, 3));
}

TEST(RowGather, RowsBeyondTheCapacityAreDroppedAndCounted) {
  auto gather = RowGather::Create(GatherConfig(1));
  v1::RouteRows header;
  header.add_keys(3);
  header.add_rows(1);
  header.add_dropped()->set_key(3);
  header.mutable_dropped(0)->set_rows(4);
  ASSERT_TRUE(gather->Add(RowTuple(5, {{3, 2}}, {17})).ok());
  ASSERT_TRUE(gather->Add(RowTuple(header, {11})).ok());
  ASSERT_TRUE(gather->Sort().ok());
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::ROWS), ElementsAre(0, 11));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::SLOTS), ElementsAre(-1, 1));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::COUNTS), ElementsAre(0, 6));
}

TEST(RowGather, OnTheWayBackRowsGoWhereTheirKeysSay) {
  auto gather = RowGather::Create(GatherConfig(1, true));
  ASSERT_TRUE(gather->Add(RowTuple(4, {{3, 0}}, {42})).ok());
  ASSERT_TRUE(gather->Add(RowTuple(0, {{3, 1}}, {41})).ok());
  ASSERT_TRUE(gather->Sort().ok());
  EXPECT_THAT(gather->DimsOf(0, v1::RouteReceiver::ROWS), ElementsAre(2));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::ROWS), ElementsAre(0, 42)) << "the last in the order of the sources counts";
}

TEST(RowGather, NothingIsAllZeros) {
  auto gather = RowGather::Create(GatherConfig(2));
  ASSERT_TRUE(gather->Sort().ok());
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::ROWS), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(MadeOf(*gather, v1::RouteReceiver::COUNTS), ElementsAre(0, 0));
}

TEST(RowGather, ATupleThatDoesNotFitIsRefusedAndChangesNothing) {
  auto gather = RowGather::Create(GatherConfig(3));
  const auto refused = [&](const Bytes& tuple, const std::string& why) {
    const absl::Status status = gather->Add(tuple);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(gather->rows(), 0);
  };
  refused(Bytes::FromString("abc"), "no header");
  refused(Bytes::FromString(std::string("\xff\xff\xff\xff", 4)), "header does not parse");
  refused(Bytes::FromString(std::string("\2\0\0\0\xff\xff", 6)), "header does not parse");
  refused(RowTuple(0, {{2, 0}}, {}), "their bytes");
  refused(RowTuple(0, {{2, 0}}, {1, 2}), "their bytes");
  refused(RowTuple(0, {{1, 0}}, {1}), "belongs to another host");
  refused(RowTuple(0, {{4, 0}}, {1}), "belongs to another host");
  refused(RowTuple(0, {{-1, 0}}, {1}), "belongs to another host");
  refused(RowTuple(0, {{2, 10}}, {1}), "not in the source");
  refused(RowTuple(9, {{2, 1}}, {1}), "not in the source");
  refused(RowTuple(INT64_MAX, {{2, 1}}, {1}), "their source");
  refused(RowTuple(0, {{2, -1}}, {1}), "not in the source");
  v1::RouteRows header;
  header.add_keys(2);
  refused(RowTuple(header, {1}), "differ in number");
  header.Clear();
  header.add_dropped()->set_key(2);
  header.mutable_dropped(0)->set_rows(11);
  refused(RowTuple(header, {}), "dropped rows");
  header.mutable_dropped(0)->set_rows(-1);
  refused(RowTuple(header, {}), "dropped rows");
  header.mutable_dropped(0)->set_rows(1);
  header.mutable_dropped(0)->set_key(4);
  refused(RowTuple(header, {}), "dropped rows");
  header.mutable_dropped(0)->set_key(2);
  header.mutable_dropped(0)->set_rows(10);
  EXPECT_TRUE(gather->Add(RowTuple(header, {})).ok());
  refused(RowTuple(0, {{2, 0}}, {1}), "more of them than in the source");
}

TEST(RowGather, ARowThatComesTwiceIsAnError) {
  auto gather = RowGather::Create(GatherConfig(3));
  ASSERT_TRUE(gather->Add(RowTuple(0, {{2, 4}}, {1})).ok());
  ASSERT_TRUE(gather->Add(RowTuple(1, {{2, 3}}, {1})).ok());
  EXPECT_THAT(std::string(gather->Sort().message()), HasSubstr("come twice"));
}

TEST(RowGather, AMalformedConfigIsRefused) {
  const auto refused = [](const v1::RouteReceiver& config) {
    EXPECT_EQ(RowGather::Create(config).status().code(), absl::StatusCode::kInvalidArgument);
  };
  v1::RouteReceiver config = GatherConfig(3);
  config.set_dtype(1000);
  refused(config);
  config = GatherConfig(-1);
  refused(config);
  config = GatherConfig(3);
  config.add_row_dims(INT64_MAX);
  refused(config);
  config = GatherConfig(3);
  config.mutable_tiles(0)->set_count(-1);
  refused(config);
  config = GatherConfig(3);
  *config.add_tiles() = config.tiles(0);
  refused(config);
}

// A whole route with random keys, against the definition: sorted by expert, then by source row.
struct RandomRoute {
  explicit RandomRoute(uint32_t seed) : random(seed) {
    rows = Draw(0, 40);
    hosts = static_cast<uint32_t>(Draw(1, 3));
    experts = Draw(1, 6);
    capacity = Draw(0, 5);
    for (int64_t row = 0; row < rows; ++row) keys.push_back(static_cast<int32_t>(Draw(-1, experts - 1)));
  }
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  // The hosts have equal parts of experts or rows, the last maybe less.
  static std::pair<int64_t, int64_t> PartOf(int64_t all, uint32_t host, uint32_t hosts) {
    const int64_t each = (all + hosts - 1) / hosts, first = std::min<int64_t>(all, host * each);
    return {first, std::min(all, first + each) - first};
  }
  // Moves `values` by their keys; returns the receivers.
  std::vector<RowGather> Move(bool back, const std::vector<int32_t>& by, const std::vector<int32_t>& values, int64_t num_keys) {
    std::vector<RowGather> receivers;
    std::vector<Bytes> tuples[3];
    for (uint32_t host = 0; host < hosts; ++host) {
      v1::RouteSender config;
      config.set_back(back);
      config.set_row_bytes(4);
      config.set_capacity(capacity);
      const auto [first, count] = PartOf(static_cast<int64_t>(by.size()), host, hosts);
      config.add_pieces()->set_first(first);
      config.mutable_pieces(0)->set_count(count);
      for (uint32_t to = 0; to < hosts; ++to) {
        const auto [key, number] = PartOf(num_keys, to, hosts);
        if (number == 0) continue;
        auto& target = *config.add_targets();
        target.set_first(key);
        target.set_count(number);
        target.add_receivers(to);
      }
      auto split = RowSplit::Create(config, hosts);
      EXPECT_TRUE(split.ok()) << split.status();
      const Bytes bytes = Bytes::Copy({reinterpret_cast<const char*>(values.data() + first), static_cast<size_t>(4 * count)});
      EXPECT_TRUE(split->Add({by.data() + first, static_cast<size_t>(count)}, bytes).ok());
      for (uint32_t to = 0; to < hosts; ++to) {
        while (auto tuple = *split->Next(to, static_cast<size_t>(Draw(1, 20)))) tuples[to].push_back(*std::move(tuple));
      }
    }
    for (uint32_t host = 0; host < hosts; ++host) {
      v1::RouteReceiver config;
      config.set_back(back);
      config.set_dtype(4);
      config.set_source_rows(static_cast<int64_t>(by.size()));
      config.set_capacity(capacity);
      const auto [first, count] = PartOf(num_keys, host, hosts);
      config.add_tiles()->set_first(first);
      config.mutable_tiles(0)->set_count(count);
      receivers.push_back(*RowGather::Create(config));
      std::shuffle(tuples[host].begin(), tuples[host].end(), random);
      for (const Bytes& tuple : tuples[host]) EXPECT_TRUE(receivers.back().Add(tuple).ok());
      EXPECT_TRUE(receivers.back().Sort().ok());
    }
    return receivers;
  }

  std::mt19937 random;
  int64_t rows, experts, capacity;
  uint32_t hosts;
  std::vector<int32_t> keys;
};

std::vector<int32_t> AllOf(const std::vector<RowGather>& receivers, RowGather::What what) {
  std::vector<int32_t> all;
  for (const RowGather& receiver : receivers) {
    const std::vector<int32_t> made = MadeOf(receiver, what);
    all.insert(all.end(), made.begin(), made.end());
  }
  return all;
}

TEST(RowGather, RandomRoutesAreWhatTheirDefinitionSaysAndTheirWayBackIsTheirInverse) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomRoute world(seed);
    std::vector<int32_t> values;
    for (int64_t row = 0; row < world.rows; ++row) values.push_back(static_cast<int32_t>(1000 + row));
    std::vector<int32_t> rows(world.experts * world.capacity, 0), slots(rows.size(), -1), counts(world.experts, 0),
        returned(world.rows, 0);
    for (int64_t row = 0; row < world.rows; ++row) {
      const int64_t key = world.keys[row];
      if (key < 0) continue;
      const int64_t at = counts[key]++;
      if (at >= world.capacity) continue;
      rows[key * world.capacity + at] = returned[row] = values[row];
      slots[key * world.capacity + at] = static_cast<int32_t>(row);
    }
    const auto out = world.Move(false, world.keys, values, world.experts);
    EXPECT_EQ(AllOf(out, v1::RouteReceiver::ROWS), rows) << "seed " << seed;
    EXPECT_EQ(AllOf(out, v1::RouteReceiver::SLOTS), slots) << "seed " << seed;
    EXPECT_EQ(AllOf(out, v1::RouteReceiver::COUNTS), counts) << "seed " << seed;
    const auto back = world.Move(true, slots, rows, world.rows);
    EXPECT_EQ(AllOf(back, v1::RouteReceiver::ROWS), returned) << "seed " << seed;
  }
}

// Tuples of which some bytes are changed. Half of them are of the size that their config needs.
TEST(RowGather, BytesOfOtherHostsDoNoHarm) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  int fit = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto choice = static_cast<uint8_t>(random());
    std::string input(1, static_cast<char>(choice));
    const auto add = [&](std::string piece) {
      for (uint32_t n = below(3); n > 0 && !piece.empty(); --n)
        piece[below(static_cast<uint32_t>(piece.size()))] = static_cast<char>(random());
      input += {static_cast<char>(piece.size() & 255), static_cast<char>(piece.size() >> 8)};
      input += piece;
    };
    if ((choice & 128) != 0) add(ConfigToTry(choice & 127).SerializeAsString());
    for (uint32_t t = below(4); t > 0; --t) {
      std::vector<std::pair<int64_t, int64_t>> rows;
      for (uint32_t n = below(6); n > 0; --n) rows.emplace_back(2 + below(8), below(12));
      add(std::string(RowTuple(10 * below(4), rows, std::vector<int32_t>(rows.size(), 7)).view()));
    }
    fit += TryRows(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
  EXPECT_GT(fit, 2000) << "tuples that fit are among them";
}

TEST(RowGather, AConfigWhoseArraysAreTooLargeIsRefused) {
  v1::RouteReceiver config = GatherConfig(INT32_MAX);
  config.add_row_dims(0);  // rows of no bytes
  config.mutable_tiles(0)->set_count(INT32_MAX - 2);
  EXPECT_FALSE(RowGather::Create(config).ok()) << "the slots are too many";
}

}  // namespace
}  // namespace pw::worker
