#include "pathways/identity/token_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/identity/credentials.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string SourcePath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "pw_token_source_", ::getpid(), "_", name);
}

TEST(TokenSourceTest, ARenewedTokenIsTaken) {
  const std::string path = SourcePath("renewed");
  ASSERT_TRUE(WritePrivateFile(path, "ey.one\n").ok());
  const TokenSource source = *TokenSource::At(path);
  EXPECT_EQ(source.Now(), "ey.one");
  ASSERT_TRUE(WritePrivateFile(path, "ey.two").ok());
  EXPECT_EQ(source.Now(), "ey.two");
}

TEST(TokenSourceTest, TheLastTokenStaysWhileTheFileHasNone) {
  const std::string path = SourcePath("half");
  ASSERT_TRUE(WritePrivateFile(path, "ey.one\n").ok());
  const TokenSource source = *TokenSource::At(path);
  for (const std::string& text : {std::string(), std::string("two words"), std::string(4000, 'x')}) {
    ASSERT_TRUE(WritePrivateFile(path, text).ok());
    EXPECT_EQ(source.Now(), "ey.one");
  }
  ::unlink(path.c_str());
  EXPECT_EQ(source.Now(), "ey.one");
}

TEST(TokenSourceTest, MistakesAreNamedWithoutTheSecret) {
  const std::string path = SourcePath("bad");
  EXPECT_TRUE(absl::IsNotFound(TokenSource::At(path).status()));
  for (const std::string& text : {std::string("two secrets"), std::string(" \n"), "secret" + std::string(3070, 'x')}) {
    ASSERT_TRUE(WritePrivateFile(path, text).ok());
    const absl::Status status = TokenSource::At(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
  }
  ASSERT_TRUE(WritePrivateFile(path, "ey.one").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(TokenSource::At(path).status()));
}

TEST(TokenSourceTest, ATokenFileMayNameTheFileOfTheToken) {
  const std::string path = SourcePath("file"), token = SourcePath("token");
  ASSERT_TRUE(WritePrivateFile(token, "ey.one").ok());
  ASSERT_TRUE(WritePrivateFile(path, ToText({"head:8470", std::string(32, 'f'), "", false, token})).ok());
  EXPECT_EQ(ReadTokenFile(path)->token_from, token);
  EXPECT_EQ(CredentialsFor("head:8470", {path})->token.Now(), "ey.one");
  ::unlink(token.c_str());
  EXPECT_TRUE(absl::IsNotFound(CredentialsFor("head:8470", {path}).status()));
}

}  // namespace
}  // namespace pw::identity
