#include "pathways/http/static_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace pw::http {
namespace {

namespace fs = std::filesystem;

class StaticFilesTest : public testing::Test {
 protected:
  StaticFilesTest() { fs::create_directories(folder / "assets"); }
  ~StaticFilesTest() override { fs::remove_all(folder); }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }

  const fs::path folder = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(StaticFilesTest, FindsFilesByTheirWholePath) {
  Write("index.html", "<p>");
  Write("assets/a.js", "1");
  const auto files = StaticFiles::Load(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->Find("/")->bytes, "<p>");
  EXPECT_EQ(files->Find("/index.html")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(files->Find("/assets/a.js")->content_type, "text/javascript; charset=utf-8");
  for (const char* path : {"", "/assets", "/assets/", "/assets/../index.html", "//index.html", "/assets/a.js/",
                           "/%2e%2e/etc/passwd", "/../../etc/passwd"})
    EXPECT_EQ(files->Find(path), nullptr) << path;
}

TEST_F(StaticFilesTest, LinksAreNotFollowed) {
  Write("index.html", "<p>");
  fs::create_symlink("/etc/passwd", folder / "assets/passwd.txt");
  const auto files = StaticFiles::Load(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->Find("/assets/passwd.txt"), nullptr);
}

TEST_F(StaticFilesTest, AFolderThatIsNoPageIsRefused) {
  EXPECT_EQ(StaticFiles::Load(folder).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StaticFiles::Load(folder / "nowhere").status().code(), absl::StatusCode::kNotFound);
  Write("index.html", "<p>");
  Write("secret.token", "1");
  EXPECT_EQ(StaticFiles::Load(folder).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StaticFilesTest, TooMuchIsRefused) {
  Write("index.html", "<p>");
  Write("big.js", std::string(StaticFiles::kMostBytes, ' '));
  EXPECT_EQ(StaticFiles::Load(folder).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pw::http
