#include "pathways/identity/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::identity {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string NewPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "pw_token_file_", ::getpid(), "_", name);
}

TEST(TokenFileTest, AFileIsReadAsItWasWritten) {
  const std::string path = NewPath("same");
  const TokenFile file{"head:8470", std::string(32, 'f'), "pw-01234567-secret"};
  ASSERT_TRUE(WritePrivateFile(path, ToText(file)).ok());
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const TokenFile read = *ReadTokenFile(path);
  EXPECT_EQ(read.address, file.address);
  EXPECT_EQ(read.authority, file.authority);
  EXPECT_EQ(read.token, file.token);
  EXPECT_FALSE(read.tls_off);
  EXPECT_TRUE(ParseTokenFile(ToText({"head:8470", "", "", true}))->tls_off);
}

TEST(TokenFileTest, AFileThatOthersCanReadIsRefused) {
  const std::string path = NewPath("open");
  ASSERT_TRUE(WritePrivateFile(path, ToText({"head:8470", std::string(32, 'f'), "pw-01234567-secret"})).ok());
  for (const mode_t mode : {0640, 0604, 0660}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const absl::Status status = ReadTokenFile(path).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("chmod 600"));
  }
}

TEST(TokenFileTest, MistakesAreNamedWithoutTheSecret) {
  EXPECT_TRUE(absl::IsNotFound(ReadTokenFile(NewPath("none")).status()));
  const std::string path = NewPath("bad");
  const std::vector<std::string> mistakes = {"pw-01234567-secret", "address a:1\ntoken pw-01234567-secret",
                                             "address a:1\nauthority sha256:pw-01234567-secret\ntoken x",
                                             std::string(10'000, 'x')};
  for (const std::string& text : mistakes) {
    ASSERT_TRUE(WritePrivateFile(path, text).ok());
    const absl::Status status = ReadTokenFile(path).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_THAT(status.message(), Not(HasSubstr("01234567"))) << text;
  }
  EXPECT_FALSE(ReadTokenFile(::testing::TempDir()).ok());
}

}  // namespace
}  // namespace pw::identity
