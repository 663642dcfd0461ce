#include "pathways/identity/tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/secret.h"

namespace pw::identity {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const absl::Duration kDay = absl::Hours(24);

std::string Make(TokenTable* table, TokenRequest request) { return *table->Create(request, kNow, RandomKey()); }

TEST(TokensTest, ATokenSaysWhoseItIs) {
  TokenTable table;
  const std::string ada = Make(&table, {"ada", Role::kUser, kNow + kDay}),
                    bob = Make(&table, {"bob@example.org", Role::kOperator});
  EXPECT_EQ(table.Check(ada, kNow)->of.user, "ada");
  EXPECT_EQ(table.Check(ada, kNow)->of.role, Role::kUser);
  EXPECT_EQ(table.Check(bob, kNow + 365 * kDay)->of.role, Role::kOperator);
  EXPECT_EQ(table.Check(ada, kNow)->id, TokenId(ada));
}

TEST(TokensTest, AnyOtherTextIsRefused) {
  TokenTable table;
  const std::string token = Make(&table, {"ada"});
  EXPECT_TRUE(absl::IsUnauthenticated(TokenTable().Check(token, kNow).status()));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] = wrong[i] == '0' ? '1' : '0';
    EXPECT_TRUE(absl::IsUnauthenticated(table.Check(wrong, kNow).status())) << i;
    EXPECT_TRUE(absl::IsUnauthenticated(table.Check(token.substr(0, i), kNow).status())) << i;
  }
  EXPECT_TRUE(absl::IsUnauthenticated(table.Check(token + "0", kNow).status()));
}

TEST(TokensTest, ATokenEnds) {
  TokenTable table;
  const std::string token = Make(&table, {"ada", Role::kUser, kNow + kDay});
  EXPECT_TRUE(table.Check(token, kNow + kDay - absl::Seconds(1)).ok());
  const absl::Status late = table.Check(token, kNow + kDay).status();
  EXPECT_TRUE(absl::IsUnauthenticated(late));
  EXPECT_THAT(late.message(), HasSubstr("'ada' ended at"));
  EXPECT_TRUE(table.List(kNow + kDay).empty());
}

TEST(TokensTest, AJoinTokenHasSoManyUses) {
  TokenTable table;
  const std::string token = Make(&table, {"rack1", Role::kWorker, absl::InfiniteFuture(), 2});
  EXPECT_TRUE(table.Use(token, kNow).ok());
  EXPECT_TRUE(table.Check(token, kNow).ok()) << "looking is no use";
  EXPECT_EQ(*table.Use(token, kNow)->of.uses, 0);
  EXPECT_THAT(table.Use(token, kNow).status().message(), HasSubstr("all uses of the join token"));
}

TEST(TokensTest, ARevokedTokenIsUnknown) {
  TokenTable table;
  const std::string token = Make(&table, {"ada"});
  EXPECT_TRUE(table.Revoke(TokenId(token)).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(table.Check(token, kNow).status()));
  EXPECT_TRUE(absl::IsNotFound(table.Revoke(TokenId(token))));
}

TEST(TokensTest, TheTextHasNoSecretAndGivesTheSameTable) {
  TokenTable table;
  const std::string ada = Make(&table, {"ada", Role::kUser, kNow + kDay}),
                    host = Make(&table, {"rack1", Role::kWorker, absl::InfiniteFuture(), 3});
  const std::string text = table.ToText();
  for (const std::string& token : {ada, host}) EXPECT_THAT(text, Not(HasSubstr(token.substr(token.rfind('-') + 1))));
  TokenTable again = *TokenTable::Parse(text);
  EXPECT_EQ(again.ToText(), text);
  EXPECT_EQ(again.Check(ada, kNow)->of.expires, kNow + kDay);
  EXPECT_EQ(*again.Use(host, kNow)->of.uses, 2);
}

TEST(TokensTest, BadRequestsAreRefused) {
  TokenTable table;
  const auto refused = [&](TokenRequest request) {
    return absl::IsInvalidArgument(table.Create(request, kNow, RandomKey()).status());
  };
  for (const std::string& user :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string("a/b"), std::string(65, 'a')})
    EXPECT_TRUE(refused({user})) << user;
  EXPECT_TRUE(refused({"ada", Role::kUser, kNow}));
  EXPECT_TRUE(refused({"ada", Role::kUser, absl::InfiniteFuture(), 1}));
  EXPECT_TRUE(refused({"rack1", Role::kWorker, absl::InfiniteFuture(), 0}));
}

TEST(TokensTest, DamagedTablesAreErrors) {
  TokenTable table;
  Make(&table, {"ada"});
  const std::string text = table.ToText();
  for (const std::string& bad : {text.substr(1), text.substr(0, 40), text + "x\n", "a b c d e f g\n" + text})
    EXPECT_FALSE(TokenTable::Parse(bad).ok()) << bad;
}

}  // namespace
}  // namespace pw::identity
