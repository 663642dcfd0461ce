#include "pathways/worker/transfer/regions.h"

#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/worker/execute/program_checks.h"

namespace pw::worker {
namespace {

int64_t Offset(const Dims& dims, const Dims& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
  return offset;
}

// Calls `visit` with every index of a box.
template <class F>
void ForEach(const Dims& size, F visit) {
  int64_t n = 1;
  for (int64_t d : size) n *= d;
  for (int64_t e = 0; e < n; ++e) {
    Dims index(size.size());
    int64_t rest = e;
    for (size_t i = size.size(); i-- > 0;) {
      index[i] = rest % size[i];
      rest /= size[i];
    }
    visit(index);
  }
}

Dims Plus(Dims a, const Dims& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(Regions, CopyBoxMovesEveryElementToItsPlaceAndTouchesNothingElse) {
  std::mt19937 random(7);
  auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int run = 0; run < 3000; ++run) {
    const size_t rank = static_cast<size_t>(pick(5));
    Dims from_dims, to_dims, size, from_start, to_start;
    for (size_t i = 0; i < rank; ++i) {
      size.push_back(pick(4));
      from_dims.push_back(size[i] + (pick(2) == 0 ? 0 : pick(3)));
      to_dims.push_back(size[i] + (pick(2) == 0 ? 0 : pick(3)));
      from_start.push_back(pick(from_dims[i] - size[i] + 1));
      to_start.push_back(pick(to_dims[i] - size[i] + 1));
    }
    ASSERT_TRUE(Contains(from_dims, from_start, size));
    std::vector<uint16_t> from(static_cast<size_t>(*ElementCount(from_dims))),
        to(static_cast<size_t>(*ElementCount(to_dims)), 9999);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
    std::vector<uint16_t> expected = to;
    ForEach(size, [&](const Dims& index) {
      expected[Offset(to_dims, Plus(index, to_start))] = from[Offset(from_dims, Plus(index, from_start))];
    });
    CopyBox(2, size, reinterpret_cast<const uint8_t*>(from.data()), from_dims, from_start, reinterpret_cast<uint8_t*>(to.data()),
            to_dims, to_start);
    ASSERT_EQ(to, expected) << "run " << run;
  }
}

TEST(Regions, StridesOfEveryOrderAndSign) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Bytes dense = Bytes::Copy({reinterpret_cast<const char*>(values.data()), 24});
  auto laid_out = [&](const Dims& strides) {
    const Bytes bytes = ToStrides(4, std::vector<int64_t>{2, 3}, dense, strides);
    std::vector<float> result(bytes.size() / 4);
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  };
  EXPECT_EQ(laid_out({12, 4}), values);
  EXPECT_EQ(laid_out({4, 8}), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(laid_out({-12, -4}), (std::vector<float>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(laid_out({24, 8}), (std::vector<float>{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5}));
}

TEST(Regions, RefusesUnreasonableShapes) {
  EXPECT_FALSE(ElementCount(std::vector<int64_t>{-1}).ok());
  EXPECT_FALSE(ElementCount(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_EQ(*ElementCount(std::vector<int64_t>{int64_t{1} << 40, 0}), 0);
  EXPECT_FALSE(StridedSize(4, std::vector<int64_t>{3}, std::vector<int64_t>{INT64_MIN}).ok());
  EXPECT_FALSE(StridedSize(4, std::vector<int64_t>{3}, {}).ok());
  EXPECT_FALSE(Contains(std::vector<int64_t>{3}, std::vector<int64_t>{1}, std::vector<int64_t>{INT64_MAX}));
  EXPECT_FALSE(Contains(std::vector<int64_t>{3}, std::vector<int64_t>{-1}, std::vector<int64_t>{1}));
}

TEST(ProgramChecks, FindsCallsIntoTheClientsProcess) {
  EXPECT_TRUE(CheckCustomCalls("calls xla_python_gpu and my_InspectSharding_thing").ok());
  EXPECT_EQ(CheckCustomCalls(absl::string_view("\0InspectSharding\0", 17)).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckCustomCalls("@xla_buffer_python_cpu_callback(").code(), absl::StatusCode::kUnimplemented);
}

TEST(ProgramChecks, NamesBothVersionsWhenTheProgramIsTooNew) {
  const std::string program = "ML\xefRStableHLO_v1.14.2" + std::string(1, '\0') + "rest";
  const absl::Status refusal = absl::InvalidArgumentError("cannot parse");
  ASSERT_TRUE(IsNewerThanRuntime(refusal, program, "1.13.0"));
  const std::string text(ExplainNewerProgram(refusal, program, "1.13.0").message());
  EXPECT_NE(text.find("1.14.2"), std::string::npos);
  EXPECT_NE(text.find("1.13.0"), std::string::npos);
}

TEST(ProgramChecks, OtherRefusalsAreNoneOfTheVersion) {
  const std::string program = "ML\xefRStableHLO_v1.14.2" + std::string(1, '\0') + "rest";
  const absl::Status refusal = absl::InvalidArgumentError("cannot parse");
  EXPECT_FALSE(IsNewerThanRuntime(refusal, program, "1.14.2"));
  EXPECT_FALSE(IsNewerThanRuntime(refusal, program, "")) << "a runtime that does not say its version";
  EXPECT_FALSE(IsNewerThanRuntime(refusal, "module {}", "1.13.0"));
  EXPECT_FALSE(IsNewerThanRuntime(absl::ResourceExhaustedError("out of memory allocating 64 bytes"), program, "1.13.0"));
}

}  // namespace
}  // namespace pw::worker
