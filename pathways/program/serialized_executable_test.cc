#include "pathways/program/serialized_executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pw::program {
namespace {

std::string Serialized() {
  std::string module = "ML\xefR";
  module.append("\0module", 7);
  return SerializeExecutable("cpu", "of today", module, "options").value();
}

TEST(SerializedExecutableTest, GivesBackWhatItWasMadeOf) {
  const auto read = ParseExecutable(Serialized());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->platform_name, "cpu");
  EXPECT_EQ(read->platform_version, "of today");
  EXPECT_EQ(read->module.size(), 11u);
  EXPECT_EQ(read->options, "options");
}

TEST(SerializedExecutableTest, EqualProgramsGiveEqualBytes) { EXPECT_EQ(Serialized(), Serialized()); }

TEST(SerializedExecutableTest, ARefusalSaysWhatToDo) {
  EXPECT_THAT(ParseExecutable("").status().message(), ::testing::HasSubstr("Compile the program again"));
}

TEST(SerializedExecutableTest, EveryCutIsRefused) {
  const std::string whole = Serialized();
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(ParseExecutable({whole.data(), size}).ok()) << size;
  EXPECT_FALSE(ParseExecutable(whole + "x").ok());
}

TEST(SerializedExecutableTest, EveryChangedBitIsRefused) {
  const std::string whole = Serialized();
  for (size_t i = 0; i < 8 * whole.size(); ++i) {
    std::string changed = whole;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(ParseExecutable(changed).ok()) << i;
  }
}

TEST(SerializedExecutableTest, AnotherVersionOfTheFormIsNamed) {
  std::string later = Serialized();
  later.replace(0, later.find('\n'), "pathways-executable-23");
  EXPECT_EQ(ParseExecutable(later).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pw::program
