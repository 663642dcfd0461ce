#include "pathways/bulk/growing_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "pathways/bulk/shared_directory.h"

namespace pw::bulk {
namespace {

constexpr int64_t kSize = 64 << 20;

class GrowingFileTest : public ::testing::Test {
 protected:
  GrowingFileTest() {
    std::string name = "/dev/shm/pw-test-XXXXXX";
    path_ = mkdtemp(name.data());
    directory_ = *OpenSharedDirectory(path_);
  }
  ~GrowingFileTest() override {
    close(directory_);
    std::filesystem::remove_all(path_);
  }
  std::string File() const { return path_ + "/lt_7"; }
  void Append(size_t bytes) const { std::ofstream(File(), std::ios::app) << std::string(bytes, 'x'); }
  GrowingFile Growing(int64_t size = kSize) const { return *GrowingFile::In(directory_, "", 7, size); }
  static bool Refused(GrowingFile& file) { return absl::IsFailedPrecondition(file.Look().status()); }

  std::string path_;
  int directory_;
};

TEST_F(GrowingFileTest, WhatIsBelowTheSizeHasBeenWritten) {
  std::thread client([&] {
    const std::string contents(kSize, '\xff');
    const int fd = open(File().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_EQ(write(fd, contents.data(), contents.size()), kSize);
    close(fd);
  });
  GrowingFile file = Growing();
  std::vector<uint8_t> read(kSize, 0);
  int64_t done = 0, wrong = 0;
  while (done < kSize && wrong == 0) {
    const absl::StatusOr<int64_t> grown = file.Look();
    if (!grown.ok()) break;  // this thread was not let run while the other wrote
    if (!file.Read(done, read.data() + done, static_cast<size_t>(*grown - done)).ok()) break;
    wrong = *grown - done - std::count(read.begin() + done, read.begin() + *grown, 0xff);
    done = *grown;
  }
  client.join();
  EXPECT_EQ(wrong, 0) << "below " << done;
}

TEST_F(GrowingFileTest, IsReadAsFarAsItHasCome) {
  GrowingFile file = Growing(12);
  EXPECT_EQ(file.Look().value(), 0) << "it is not there yet";
  Append(0);
  EXPECT_EQ(file.Look().value(), 0);
  Append(5);
  EXPECT_EQ(file.Look().value(), 5);
  Append(7);
  EXPECT_EQ(file.Look().value(), 12);
  std::string read(12, ' ');
  EXPECT_TRUE(file.Read(0, reinterpret_cast<uint8_t*>(read.data()), read.size()).ok());
  EXPECT_EQ(read, std::string(12, 'x'));
  file.Remove();
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(GrowingFileTest, AFileThatGotItsSizeFirstIsRefused) {
  Append(0);
  std::filesystem::resize_file(File(), kSize);
  GrowingFile whole = Growing();
  EXPECT_TRUE(Refused(whole));
  std::filesystem::resize_file(File(), kSize / 2);
  GrowingFile holes = Growing();
  EXPECT_TRUE(Refused(holes));
}

TEST_F(GrowingFileTest, AFileThatShrinksGrowsTooFarOrLosesItsNameIsRefused) {
  Append(5000);
  GrowingFile shrinks = Growing(), grows = Growing(9000), goes = Growing();
  for (GrowingFile* file : {&shrinks, &grows, &goes}) EXPECT_EQ(file->Look().value(), 5000);
  Append(5000);
  EXPECT_TRUE(Refused(grows));
  std::filesystem::resize_file(File(), 4000);
  EXPECT_TRUE(Refused(shrinks));
  uint8_t byte;
  EXPECT_TRUE(absl::IsFailedPrecondition(shrinks.Read(4999, &byte, 1)));
  Append(5000);
  std::filesystem::remove(File());
  EXPECT_TRUE(Refused(goes));
}

TEST_F(GrowingFileTest, WhatIsNoPlainFileIsRefused) {
  std::filesystem::create_symlink("/etc/passwd", File());
  GrowingFile link = Growing();
  EXPECT_TRUE(Refused(link));
  std::filesystem::remove(File());
  ASSERT_EQ(mkfifo(File().c_str(), 0600), 0);
  GrowingFile pipe = Growing();
  EXPECT_TRUE(Refused(pipe));
}

TEST_F(GrowingFileTest, FoldersOutsideAreNotEntered) {
  EXPECT_EQ(GrowingFile::In(directory_, "..", 7, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GrowingFile::In(directory_, "none", 7, 1).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace pw::bulk
