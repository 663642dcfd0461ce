#include "pathways/program/stablehlo_version.h"

#include <gtest/gtest.h>

#include <string>

namespace pw::program {
namespace {

TEST(StablehloVersionTest, IsReadFromTheProducerOfAProgram) {
  std::string program = "ML\xefR\rStableHLO_v1.16.3";
  program.append("\0rest", 5);
  ASSERT_TRUE(StablehloVersionOf(program).has_value());
  EXPECT_EQ(StablehloVersionOf(program)->ToString(), "1.16.3");
}

TEST(StablehloVersionTest, OtherBytesHaveNone) {
  EXPECT_FALSE(StablehloVersionOf("").has_value());
  EXPECT_FALSE(StablehloVersionOf("module {}").has_value());
  EXPECT_FALSE(StablehloVersionOf("ML StableHLO_v").has_value());
  EXPECT_FALSE(StablehloVersionOf("ML StableHLO_v1..3").has_value());
  EXPECT_FALSE(StablehloVersionOf("ML StableHLO_v99999999999.1.1").has_value());
  std::string late(64, ' ');
  late.append("StableHLO_v1.16.3");
  EXPECT_FALSE(StablehloVersionOf(late).has_value()) << "not at the start";
}

TEST(StablehloVersionTest, TextsOfOtherFormsAreNone) {
  for (const char* text : {"", "1", "1.2.3.4", "1.2.x", "-1.2.3", "v1.2.3"})
    EXPECT_FALSE(ParseStablehloVersion(text).has_value()) << text;
  EXPECT_EQ(ParseStablehloVersion("1.13")->ToString(), "1.13.0");
}

TEST(StablehloVersionTest, ComparesByNumber) {
  EXPECT_LT(*ParseStablehloVersion("1.9.11"), *ParseStablehloVersion("1.10.0"));
  EXPECT_LT(*ParseStablehloVersion("1.13.0"), *ParseStablehloVersion("1.13.7"));
  EXPECT_EQ(*ParseStablehloVersion("1.13.0"), *ParseStablehloVersion("1.13"));
}

}  // namespace
}  // namespace pw::program
