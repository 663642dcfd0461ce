#include "pathways/base/request_name.h"

#include <algorithm>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"

namespace pw {
namespace {

RequestName Name(uint64_t session, uint64_t request, uint64_t count, bool own = false) {
  return {SessionId(session), request, count, own};
}

// A number with a random number of bits, so that all widths occur.
uint64_t Random(std::mt19937_64& random, int most_bits) {
  const auto bits = static_cast<int>(random() % static_cast<uint64_t>(most_bits + 1));
  return bits == 0 ? 0 : random() >> (64 - bits);
}

TEST(RequestNameTest, ANumberIsReadAsTheNameThatItWasMadeFrom) {
  std::mt19937_64 random(1);
  absl::flat_hash_map<uint64_t, RequestName> seen;
  int fitted = 0;
  for (int i = 0; i < 300'000; ++i) {
    const RequestName name = Name(Random(random, 34), Random(random, 62), Random(random, 29), random() % 4 == 0);
    const uint64_t last = name.count + Random(random, 20);
    for (const uint64_t most : {name.count, last}) {
      const std::optional<uint64_t> number = name.Number(most);
      if (!number.has_value()) continue;
      ++fitted;
      EXPECT_EQ(*number >> 63, 0u);
      EXPECT_NE(*number, 0u);
      ASSERT_EQ(RequestName::Read(*number), name);
      EXPECT_TRUE(RequestName::HasRoom(*number, most - name.count));
      EXPECT_EQ(seen.try_emplace(*number, name).first->second, name) << "two names have one number";
    }
  }
  EXPECT_GT(fitted, 100'000);
}

TEST(RequestNameTest, EveryNumberThatNamesSomethingIsWrittenAsANumberOfTheSameName) {
  std::mt19937_64 random(2);
  int named = 0;
  for (int i = 0; i < 300'000; ++i) {
    const std::optional<RequestName> name = RequestName::Read(Random(random, 64));
    if (!name.has_value()) continue;
    ++named;
    const std::optional<uint64_t> number = name->Number();
    ASSERT_TRUE(number.has_value());
    EXPECT_EQ(RequestName::Read(*number), name);
  }
  EXPECT_GT(named, 100'000);
}

TEST(RequestNameTest, NeighboursAreAStepApart) {
  for (const RequestName& first : {Name(1, 9, 0), Name(3, 1, 7), Name(500, 1 << 20, 1000), Name(700, 12, 3, true)}) {
    constexpr uint64_t kCount = 5000;
    const std::optional<uint64_t> base = first.Number(first.count + kCount - 1);
    ASSERT_TRUE(base.has_value());
    for (uint64_t k = 0; k < kCount; ++k) {
      ASSERT_TRUE(RequestName::HasRoom(*base, k));
      RequestName name = first;
      name.count += k;
      EXPECT_EQ(RequestName::Read(*base + k * RequestName::kStep), name);
    }
  }
}

TEST(RequestNameTest, ARangeEndsWhereItsFieldEnds) {
  const uint64_t number = *Name(1, 1, 1).Number();  // counts up to 3
  EXPECT_TRUE(RequestName::HasRoom(number, 2));
  EXPECT_FALSE(RequestName::HasRoom(number, 3));
  EXPECT_FALSE(RequestName::HasRoom(number, UINT64_MAX));
  EXPECT_FALSE(RequestName::HasRoom(*Name(1, 1, 0).Number(), 1)) << "a short number has no neighbour";
  EXPECT_FALSE(RequestName::HasRoom(0, 0));
  EXPECT_FALSE(RequestName::HasRoom(uint64_t{1} << 63, 0));
}

TEST(RequestNameTest, NamesOfSmallCallsAreSmall) {
  EXPECT_LT(*Name(1, 15, 0).Number(), 1u << 7);     // a byte on the wire
  EXPECT_LT(*Name(3, 2047, 0).Number(), 1u << 14);  // two
  EXPECT_LT(*Name(1, 15, 1).Number(), 1u << 14);
  EXPECT_LT(*Name(1, 63, 2000).Number(), 1u << 28);  // four
  EXPECT_LT(*Name(200, 1'000'000, 0).Number(), uint64_t{1} << 42);
}

TEST(RequestNameTest, AFieldThatIsTooLargeIsRefused) {
  EXPECT_FALSE(Name(0, 1, 0).Number().has_value()) << "nobody's";
  EXPECT_FALSE(Name(1, 0, 0).Number().has_value()) << "requests are counted from 1 on";
  EXPECT_TRUE(Name(1, 0, 0, true).Number().has_value());
  EXPECT_TRUE(Name(1, 1, RequestName::kMostCounts - 1).Number().has_value());
  EXPECT_FALSE(Name(1, 1, RequestName::kMostCounts).Number().has_value());
  EXPECT_TRUE(Name(1, 0, RequestName::kOwnBlock - 1, true).Number().has_value());
  EXPECT_FALSE(Name(1, 0, RequestName::kOwnBlock, true).Number().has_value());
  EXPECT_FALSE(Name(uint64_t{1} << 34, 1, 0).Number().has_value());
  // The number of the largest request depends on the other fields.
  for (const auto& [session, last, bits] : {std::tuple<uint64_t, uint64_t, int>{1, 0, 60},
                                            {1, 3, 53},
                                            {255, 3, 47},
                                            {65'535, 3, 39},
                                            {65'535, 4095, 27},
                                            {65'536, 3, 21}}) {
    EXPECT_TRUE(Name(session, (uint64_t{1} << bits) - 1, 0).Number(last).has_value()) << session << " " << last;
    EXPECT_FALSE(Name(session, uint64_t{1} << bits, 0).Number(std::max<uint64_t>(last, 1)).has_value()) << session << " " << last;
  }
}

TEST(RequestNameTest, WhatNamesNothingIsRefused) {
  EXPECT_FALSE(RequestName::Read(0).has_value());
  EXPECT_FALSE(RequestName::Read(UINT64_MAX).has_value());
  EXPECT_FALSE(RequestName::Read(uint64_t{1} << 63 | *Name(1, 1, 0).Number()).has_value());
  EXPECT_FALSE(RequestName::Read(8).has_value()) << "session 0";
  EXPECT_FALSE(RequestName::Read(2).has_value()) << "request 0";
  EXPECT_EQ(SessionOfName(0), SessionId());
  EXPECT_EQ(SessionOfName(*Name(77, 5, 9).Number()), SessionId(77));
}

TEST(RequestNameTest, TheOpsOfCommandsOnManyHostsAreTold) {
  for (uint64_t k : {0, 1, 40}) {
    EXPECT_TRUE(IsJointOp(*Name(1, 4, OpCount(k, true)).Number()));
    EXPECT_FALSE(IsJointOp(*Name(1, 4, OpCount(k, false)).Number()));
  }
  EXPECT_FALSE(IsJointOp(0));
}

}  // namespace
}  // namespace pw
