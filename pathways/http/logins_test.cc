#include "pathways/http/logins.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace pw::http {
namespace {

class LoginsTest : public testing::Test {
 protected:
  int made = 0;
  Logins logins{[this] { return std::string(31, '\x5a') + static_cast<char>(++made); }};
  const absl::Time start = absl::FromUnixSeconds(1000);
};

TEST_F(LoginsTest, ATicketOpensOneSession) {
  const std::string ticket = logins.MakeTicket(start);
  EXPECT_EQ(ticket.size(), 64u);
  const auto session = logins.UseTicket(ticket, start);
  ASSERT_TRUE(session.has_value());
  EXPECT_NE(*session, ticket);
  EXPECT_TRUE(logins.Check(*session, start));
  EXPECT_FALSE(logins.UseTicket(ticket, start).has_value());
  EXPECT_FALSE(logins.Check(ticket, start));
}

TEST_F(LoginsTest, ATicketEndsByItself) {
  const std::string ticket = logins.MakeTicket(start);
  EXPECT_FALSE(logins.UseTicket(ticket, start + Logins::kTicketLife).has_value());
}

TEST_F(LoginsTest, ASessionLastsAsLongAsItIsUsed) {
  const std::string session = logins.Open(start);
  absl::Time now = start;
  for (int i = 0; i < 5; ++i) {
    now += Logins::kSessionLife - absl::Seconds(1);
    EXPECT_TRUE(logins.Check(session, now));
  }
  EXPECT_FALSE(logins.Check(session, now + Logins::kSessionLife));
}

TEST_F(LoginsTest, ASessionEndsWhenItsReaderLeaves) {
  const std::string session = logins.Open(start), other = logins.Open(start);
  logins.End(session);
  EXPECT_FALSE(logins.Check(session, start));
  EXPECT_TRUE(logins.Check(other, start));
}

TEST_F(LoginsTest, OneSessionTooManyEndsTheOneThatWasUsedLeastRecently) {
  std::vector<std::string> sessions;
  for (size_t i = 0; i < Logins::kMostSessions; ++i) sessions.push_back(logins.Open(start));
  EXPECT_TRUE(logins.Check(sessions[0], start));
  logins.Open(start);
  EXPECT_TRUE(logins.Check(sessions[0], start));
  EXPECT_FALSE(logins.Check(sessions[1], start));
}

TEST_F(LoginsTest, OneTicketTooManyEndsTheOldest) {
  const std::string first = logins.MakeTicket(start);
  for (size_t i = 0; i < Logins::kMostTickets; ++i) logins.MakeTicket(start);
  EXPECT_FALSE(logins.UseTicket(first, start).has_value());
}

TEST_F(LoginsTest, WhatIsAlmostASessionIsNone) {
  const std::string session = logins.Open(start);
  for (const std::string& shown : {std::string(), session.substr(1), session + "0", std::string(64, 'x')})
    EXPECT_FALSE(logins.Check(shown, start)) << shown;
}

}  // namespace
}  // namespace pw::http
