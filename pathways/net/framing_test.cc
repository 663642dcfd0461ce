#include "pathways/net/framing.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/net/testing.h"

namespace pw::net {
namespace {

std::string Encoded(const std::string& header, const std::string& payload) {
  std::string out(kPrefixBytes, '\0');
  EncodePrefix({static_cast<uint32_t>(header.size()), payload.size()}, reinterpret_cast<uint8_t*>(out.data()));
  return out + header + payload;
}

// Feeds `stream` to the decoder in reads of the sizes that `next_size` returns.
template <class NextSize>
absl::StatusOr<std::vector<Frame>> Decode(FrameDecoder& decoder, const std::string& stream, NextSize next_size) {
  std::vector<Frame> frames;
  for (size_t at = 0; at < stream.size();) {
    const size_t n = std::min<size_t>(next_size(), stream.size() - at);
    size_t taken = 0;
    for (const iovec& piece : decoder.Space()) {
      const size_t part = std::min(n - taken, piece.iov_len);
      if (part != 0) std::memcpy(piece.iov_base, stream.data() + at + taken, part);
      taken += part;
    }
    EXPECT_GT(taken, 0u);
    decoder.Commit(taken);
    at += taken;
    while (true) {
      absl::StatusOr<std::optional<Frame>> frame = decoder.Pop();
      if (!frame.ok()) return frame.status();
      if (!frame->has_value()) break;
      frames.push_back(*std::move(*frame));
    }
  }
  return frames;
}

TEST(FramingTest, ThePrefixIsWhatTheHeaderFileSays) {
  uint8_t prefix[kPrefixBytes];
  EncodePrefix({0x01020304, 0x1112131415161718}, prefix);
  const uint8_t expected[] = {'P', 'W', 'F', '1', 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
  EXPECT_EQ(std::memcmp(prefix, expected, kPrefixBytes), 0);
}

TEST(FramingTest, FramesSurviveEveryWayOfCuttingTheStream) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return random() % n; };
    std::vector<std::pair<std::string, std::string>> sent;
    std::string stream;
    for (size_t i = 0, count = 1 + below(20); i < count; ++i) {
      std::string header(below(below(4) == 0 ? 3000 : 40), static_cast<char>('a' + i));
      std::string payload(below(3) == 0 ? 0 : below(below(3) == 0 ? 5000 : 50), static_cast<char>('A' + i));
      stream += Encoded(header, payload);
      sent.emplace_back(std::move(header), std::move(payload));
    }
    FrameDecoder decoder(Limits{}, /*buffer_bytes=*/16 + below(500));
    const size_t largest = 1 + below(below(2) == 0 ? 5 : 2000);
    const auto frames = Decode(decoder, stream, [&] { return 1 + below(largest); });
    ASSERT_TRUE(frames.ok()) << frames.status();
    ASSERT_EQ(frames->size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ((*frames)[i].header, sent[i].first);
      EXPECT_EQ((*frames)[i].payload.view(), sent[i].second);
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*frames)[i].payload.data()) % 64, 0u);
    }
    EXPECT_TRUE(decoder.AtBoundary());
  }
}

TEST(FramingTest, EveryProperPartOfAFrameIsNotABoundary) {
  const std::string stream = Encoded("header", "payload");
  for (size_t cut = 1; cut < stream.size(); ++cut) {
    FrameDecoder decoder(Limits{});
    ASSERT_TRUE(Decode(decoder, stream.substr(0, cut), [] { return 1000; }).ok());
    EXPECT_FALSE(decoder.AtBoundary()) << cut;
  }
}

TEST(FramingTest, LengthsAboveTheLimitsAreRefusedWithTheNumbersBeforeAnyMemoryIsTaken) {
  const Limits limits{.max_header_bytes = 10, .max_payload_bytes = 20};
  const std::tuple<uint32_t, uint64_t, const char*> kCases[] = {
      {11, 0, "11"}, {10, 21, "21"}, {0xFFFFFFFF, 0, "4294967295"}, {0, 0xFFFFFFFFFFFFFFFF, "18446744073709551615"}};
  for (const auto& [header, payload, number] : kCases) {
    std::string stream(kPrefixBytes, '\0');
    EncodePrefix({header, payload}, reinterpret_cast<uint8_t*>(stream.data()));
    FrameDecoder decoder(limits);
    const absl::Status status = Decode(decoder, stream, [] { return 1000; }).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(number), absl::string_view::npos) << status;
    EXPECT_EQ(decoder.Pop().status(), status) << "FR-2";
  }
}

TEST(FramingTest, APayloadThatNoMachineHasMemoryForEndsTheConnectionAndNotTheProcess) {
  std::string stream(kPrefixBytes, '\0');
  EncodePrefix({0, uint64_t{1} << 60}, reinterpret_cast<uint8_t*>(stream.data()));
  FrameDecoder decoder(Limits{.max_payload_bytes = uint64_t{1} << 61});
  EXPECT_EQ(Decode(decoder, stream, [] { return 1000; }).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(FramingTest, AnythingElseIsNotAFrameOfOurs) {
  FrameDecoder decoder(Limits{});
  const absl::Status status = Decode(decoder, "GET / HTTP/1.1\r\n\r\n", [] { return 1000; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("not a frame of ours"), absl::string_view::npos);
}

TEST(FramingTest, APayloadComesToLieWhereThePlacerSays) {
  for (size_t read : {1u, 7u, 64u, 100000u}) {
    const std::string payload = std::string(3000, 'a') + std::string(3000, 'b');
    std::vector<uint8_t> memory(payload.size());
    std::vector<std::string> asked;
    FrameDecoder decoder({}, 64, [&](const std::string& header, size_t bytes) {
      asked.push_back(header);
      EXPECT_EQ(bytes, payload.size());
      return header == "mine" ? Place{nullptr, memory.data()} : Place();
    });
    const auto frames =
        Decode(decoder, Encoded("mine", payload) + Encoded("not", payload) + Encoded("empty", ""), [&] { return read; });
    ASSERT_TRUE(frames.ok());
    ASSERT_EQ(frames->size(), 3u);
    EXPECT_EQ(asked, (std::vector<std::string>{"mine", "not"}));
    EXPECT_EQ((*frames)[0].payload.data(), memory.data());
    EXPECT_EQ((*frames)[0].payload.view(), payload);
    EXPECT_NE((*frames)[1].payload.data(), memory.data());
    EXPECT_EQ((*frames)[1].payload.view(), payload);
  }
}

}  // namespace
}  // namespace pw::net
