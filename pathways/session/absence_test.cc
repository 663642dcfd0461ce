#include "pathways/session/absence.h"

#include <gtest/gtest.h>

#include "pathways/net/transport.h"

namespace pw::session {
namespace {

constexpr absl::Duration kGrace = absl::Minutes(10);

EndedConnection Closed(std::string there, std::string here) {
  return {.breakable = true,
          .far_end = std::move(there),
          .far_end_here = std::move(here),
          .reason = net::MarkedClosedByPeer(absl::UnavailableError("closed"))};
}

TEST(AbsenceTest, AUnixSocketEndsWithItsProcess) {
  EndedConnection connection = Closed("", "unix:/run/clients.sock (pid 12)");
  connection.breakable = false;
  EXPECT_EQ(KeptAfter(connection, kGrace), absl::ZeroDuration());
}

TEST(AbsenceTest, SilenceMayEndAndSoIsWaitedFor) {
  EndedConnection connection = Closed("tcp:10.0.0.7:4711", "tcp:10.0.0.7:4711");
  connection.reason = absl::UnavailableError("Connection timed out");
  EXPECT_EQ(KeptAfter(connection, kGrace), kGrace);
}

TEST(AbsenceTest, AMachineThatClosedTheConnectionItselfIsWaitedForAMoment) {
  EXPECT_EQ(KeptAfter(Closed("tcp:10.0.0.7:4711", "tcp:10.0.0.7:4711"), kGrace), kMomentToReturn);
  EXPECT_EQ(KeptAfter(Closed("tcp:10.0.0.7:4711", "tcp:[::ffff:10.0.0.7]:4711"), kGrace), kMomentToReturn);
  EXPECT_EQ(KeptAfter(Closed("tcp:[fd00::7]:4711", "tcp:[fd00::7]:4711"), kGrace), kMomentToReturn);
  EXPECT_EQ(KeptAfter(Closed("tcp:10.0.0.7:4711", "tcp:10.0.0.7:4711"), absl::Seconds(3)), absl::Seconds(3))
      << "never longer than the grace time";
}

TEST(AbsenceTest, AProxyThatClosesTheConnectionKnowsLittleOfTheClient) {
  EXPECT_EQ(KeptAfter(Closed("tcp:192.168.1.7:4711", "tcp:10.0.0.1:4711"), kGrace), kGrace);
  EXPECT_EQ(KeptAfter(Closed("tcp:10.0.0.7:4711", "tcp:10.0.0.7:4712"), kGrace), kGrace);
  EXPECT_EQ(KeptAfter(Closed("", "tcp:10.0.0.7:4711"), kGrace), kGrace);
  EXPECT_EQ(KeptAfter(Closed("gibberish", "gibberish"), kGrace), kGrace);
}

}  // namespace
}  // namespace pw::session
