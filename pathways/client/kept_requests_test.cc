#include "pathways/client/kept_requests.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::deque<KeptRequests::Message> Messages(size_t count, size_t bytes = 10) {
  std::deque<KeptRequests::Message> messages;
  for (size_t i = 0; i < count; ++i) messages.push_back({std::string(bytes, 'x'), {}});
  return messages;
}

std::vector<uint64_t> NumbersOf(const KeptRequests& kept) {
  std::vector<uint64_t> numbers;
  kept.ForEach([&](uint64_t number, const auto&) { numbers.push_back(number); });
  return numbers;
}

TEST(KeptRequestsTest, ARequestIsKeptUntilItIsSettled) {
  KeptRequests kept;
  EXPECT_FALSE(kept.IsSettled(1)) << "it is not acknowledged";
  kept.Keep(1, Messages(5));
  kept.Settle({{2, 3, 5, 5}});
  EXPECT_THAT(NumbersOf(kept), ElementsAre(1, 4));
  EXPECT_EQ(kept.settled_up_to(), 0u);
  EXPECT_TRUE(kept.IsSettled(2));
  kept.Settle({{1, 1}});
  EXPECT_EQ(kept.settled_up_to(), 3u);
  kept.Settle({{4, 4}});
  EXPECT_EQ(kept.settled_up_to(), 5u);
  EXPECT_EQ(kept.bytes(), 0u);
}

TEST(KeptRequestsTest, TheBytesOfABufferAreKeptWithTheRequestThatUsesThem) {
  KeptRequests kept;
  kept.NoteCarrier(1, 77);  // sent first
  kept.NoteMaker(2, {77, 78});
  kept.NoteCarrier(3, 78);
  kept.Keep(1, Messages(3));
  kept.Settle({{1, 1, 3, 3}});
  EXPECT_THAT(NumbersOf(kept), ElementsAre(1, 2, 3));
  kept.Settle({{2, 2}});
  EXPECT_THAT(NumbersOf(kept), IsEmpty());
  EXPECT_EQ(kept.bytes(), 0u);
}

TEST(KeptRequestsTest, TheBytesOfARequestThatFailedGoWhenTheyAreSettled) {
  KeptRequests kept;
  kept.NoteMaker(1, {77});
  kept.Keep(1, Messages(1));
  kept.Settle({{1, 1}});
  kept.NoteCarrier(2, 77);
  kept.Keep(2, Messages(1));
  kept.Settle({{2, 2}});
  EXPECT_THAT(NumbersOf(kept), IsEmpty());
}

TEST(KeptRequestsTest, AboveTheLimitAllBytesAreLostUntilTheRequestsAreSettled) {
  KeptRequests kept(10 * (net::ResumableStream::kMessageCost + 10));
  kept.Keep(1, Messages(10));
  EXPECT_EQ(kept.lost(), 0u);
  kept.Keep(11, Messages(1));
  EXPECT_EQ(kept.lost(), 11u);
  EXPECT_EQ(kept.bytes(), 0u);
  kept.Keep(12, Messages(3));
  EXPECT_EQ(kept.lost(), 11u) << "later ones are kept again";
  kept.Settle({{1, 10}});
  EXPECT_EQ(kept.lost(), 1u);
  kept.Settle({{11, 12}});
  EXPECT_EQ(kept.lost(), 0u);
  EXPECT_THAT(NumbersOf(kept), ElementsAre(13, 14));
}

// The model keeps sets of numbers.
TEST(KeptRequestsTest, RandomRequests) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    KeptRequests kept;
    std::set<uint64_t> told;
    std::map<uint64_t, uint64_t> carrier_of;  // by maker
    std::map<uint64_t, uint64_t> maker_of;    // by carrier
    uint64_t last = 0;
    for (int i = 0; i < 100; ++i) {
      if (random() % 3 == 0 && last > 0) {
        const uint64_t first = 1 + random() % last, end = std::min(last, first + random() % 4);
        kept.Settle({{first, end}});
        for (uint64_t n = first; n <= end; ++n) told.insert(n);
      } else if (random() % 3 == 0) {
        const bool carrier_first = random() % 2 == 0;
        const uint64_t maker = last + (carrier_first ? 2 : 1), carrier = last + (carrier_first ? 1 : 2);
        kept.NoteMaker(maker, {1000 + maker});
        kept.NoteCarrier(carrier, 1000 + maker);
        carrier_of[maker] = carrier;
        maker_of[carrier] = maker;
        kept.Keep(last + 1, Messages(2));
        last += 2;
      } else {
        kept.Keep(++last, Messages(1, random() % 100));
      }
      std::vector<uint64_t> expected;
      for (uint64_t n = 1; n <= last; ++n) {
        const auto maker = maker_of.find(n);
        if (!told.contains(n) || (maker != maker_of.end() && !told.contains(maker->second))) expected.push_back(n);
      }
      ASSERT_EQ(NumbersOf(kept), expected) << "seed " << seed << ", step " << i;
      ASSERT_EQ(kept.settled_up_to(), expected.empty() ? last : expected.front() - 1);
    }
    kept.Settle({{1, last}});
    EXPECT_EQ(kept.size(), 0u);
    EXPECT_EQ(kept.bytes(), 0u);
  }
}

}  // namespace
}  // namespace pw::client
