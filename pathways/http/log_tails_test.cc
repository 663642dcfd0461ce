#include "pathways/http/log_tails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace pw::http {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(char level, const std::string& text) {
  return absl::StrCat(std::string(1, level), " 12:01:33.412 x.cc:1] ", text, "\n");
}

class LogTailsTest : public ::testing::Test {
 protected:
  LogTailsTest() { fs::create_directories(folder_); }
  ~LogTailsTest() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name, std::ios::binary) << text; }
  std::string Answer(const std::string& query) { return LogTails(folder_.string()).Answer(ReadLogQuery(query)); }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) /
      absl::StrCat("pw_logs_", ::getpid(), "_", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST(LoggedLines, ALineWithoutALevelHasThatOfTheLineBefore) {
  const auto lines = LinesOf(absl::StrCat("before\n", Line('E', "it failed"), "  at f()\n", Line('D', "x")));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(std::string({lines[0].level, lines[1].level, lines[2].level, lines[3].level}), "IEED");
  EXPECT_EQ(lines[2].text, "  at f()");
  EXPECT_TRUE(LinesOf("").empty());
  EXPECT_EQ(LinesOf("E is for error\n")[0].level, 'I') << "it is no line of ours";
}

TEST(LoggedLines, AQueryIsReadAndNonsenseIsOverlooked) {
  const LogQuery query = ReadLogQuery("level=W&text=a%20b%2Bc+d&process=island0-host0&lines=7");
  EXPECT_EQ(query.level, 'W');
  EXPECT_EQ(query.text, "a b+c d");
  EXPECT_EQ(query.process, "island0-host0");
  EXPECT_EQ(query.lines, 7u);
  const LogQuery nonsense = ReadLogQuery("level=Q&lines=-1&=&&x&text=%&process=");
  EXPECT_EQ(nonsense.level, 'D');
  EXPECT_EQ(nonsense.lines, 100u);
  EXPECT_EQ(nonsense.text, "%");
  EXPECT_EQ(ReadLogQuery("lines=999999999").lines, LogTails::kMostLines);
}

TEST_F(LogTailsTest, ShowsEachProcessAndFiltersByLevelAndText) {
  Write("controller.log", Line('I', "clients connect") + Line('W', "a host is slow") + "  detail\n");
  Write("host0.log", Line('E', "disk is full"));
  Write("state.json", "{}");
  EXPECT_THAT(Answer(""), HasSubstr(R"("names":["controller","host0"])"));
  EXPECT_THAT(Answer(""), HasSubstr(R"(["I","I 12:01:33.412 x.cc:1] clients connect"])"));
  const std::string warnings = Answer("level=W");
  EXPECT_THAT(warnings, Not(HasSubstr("clients connect")));
  EXPECT_THAT(warnings, HasSubstr(R"(["W","  detail"])"));
  EXPECT_THAT(warnings, HasSubstr("disk is full"));
  const std::string slow = Answer("text=SLOW");
  EXPECT_THAT(slow, HasSubstr("a host is slow"));
  EXPECT_THAT(slow, Not(HasSubstr("detail")));
  EXPECT_THAT(Answer("process=host0"), Not(HasSubstr("slow")));
}

TEST_F(LogTailsTest, IsBounded) {
  std::string text;
  for (int i = 0; text.size() < 2 * LogTails::kTailBytes; ++i) text += Line('I', absl::StrCat("line ", i));
  Write("controller.log", text + Line('I', "the last"));
  const std::string all = Answer("lines=1000");
  EXPECT_LT(all.size(), 2 * LogTails::kTailBytes);
  EXPECT_THAT(all, HasSubstr("the last"));
  EXPECT_THAT(all, HasSubstr(R"("cut":true)"));
  EXPECT_THAT(all, Not(HasSubstr("line 0\"")));
  const std::string two = Answer("lines=1&text=line");
  EXPECT_THAT(two, HasSubstr(R"("cut":true,"lines":[["I","I 12:01:33.412 x.cc:1] line )"));
}

TEST_F(LogTailsTest, ReadsNoLinksPipesOrFoldersAndNothingElsewhere) {
  const fs::path secret = folder_ / "secret.txt";
  Write("secret.txt", "a secret\n");
  fs::create_symlink(secret, folder_ / "link.log");
  fs::create_directory(folder_ / "folder.log");
  ASSERT_EQ(mkfifo((folder_ / "pipe.log").c_str(), 0600), 0);
  EXPECT_THAT(Answer(""), Not(HasSubstr("a secret")));
  EXPECT_THAT(Answer("process=../secret"), HasSubstr(R"("processes":[])"));
  EXPECT_EQ(LogTails("/nonexistent").Answer({}), R"({"names":[],"processes":[]})");
}

}  // namespace
}  // namespace pw::http
