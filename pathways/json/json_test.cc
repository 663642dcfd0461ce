#include "pathways/json/json.h"

#include "gtest/gtest.h"

namespace pw {
namespace {

std::optional<uint64_t> CountIn(const std::string& json) { return CountOf(*FindField(*ParseJson(json), "n")); }

TEST(JsonTest, CountsAreWholeNumbersThatDoublesHoldExactly) {
  EXPECT_EQ(CountIn(R"({"n": 0})"), 0u);
  EXPECT_EQ(CountIn(R"({"n": 3.0})"), 3u);
  EXPECT_EQ(CountIn(R"({"n": 9007199254740992})"), uint64_t{1} << 53);
  for (const char* none : {"9007199254740994", "1e300", "-1", "0.5", R"("3")", "true", "null", "[1]", "{}"})
    EXPECT_EQ(CountIn(std::string(R"({"n": )") + none + "}"), std::nullopt) << none;
}

TEST(JsonTest, NumbersMayBeNegativeButMustBeWhole) {
  const JsonObject object = *ParseJson(R"({"whole": [-9007199254740992, 0, 7], "half": [0.5], "text": ["1"], "one": 1})");
  EXPECT_EQ(*NumbersField(object, "whole"), (std::vector<int64_t>{-9007199254740992, 0, 7}));
  for (const char* name : {"half", "text", "one", "missing"}) EXPECT_FALSE(NumbersField(object, name).ok()) << name;
}

TEST(JsonTest, AMissingFieldIsNamed) {
  const JsonObject object = *ParseJson(R"({"there": 1})");
  EXPECT_EQ(FindField(object, "absent"), nullptr);
  EXPECT_EQ(StringField(object, "absent").status().message(), "it needs a field \"absent\", a string");
  EXPECT_EQ(StringField(object, "there").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pw
