#include "pathways/base/unreachable_host.h"

#include <gtest/gtest.h>

namespace pw {
namespace {

TEST(UnreachableHostTest, TheMarkIsReadBackAndChangesNeitherCodeNorText) {
  const absl::Status marked = UnreachableHostError(HostId(7), "cannot reach host 'b'");
  EXPECT_EQ(UnreachableHost(marked), HostId(7));
  EXPECT_EQ(marked.ToString(absl::StatusToStringMode::kWithNoExtraData), "UNAVAILABLE: cannot reach host 'b'");
  EXPECT_EQ(UnreachableHost(WithPayloadsOf(marked, absl::InternalError("other"))), HostId(7));
}

TEST(UnreachableHostTest, OtherStatusesHaveNone) {
  EXPECT_EQ(UnreachableHost(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(UnreachableHost(absl::UnavailableError("x")), std::nullopt);
  EXPECT_TRUE(WithUnreachableHost(absl::OkStatus(), HostId(1)).ok());
  absl::Status strange = absl::UnavailableError("x");
  strange.SetPayload("pathways.dev/unreachable-host", absl::Cord("no number"));
  EXPECT_EQ(UnreachableHost(strange), std::nullopt);
}

}  // namespace
}  // namespace pw
