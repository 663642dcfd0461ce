#include "pathways/base/secret.h"

#include <gtest/gtest.h>

namespace pw {
namespace {

TEST(SecretTest, OnlyTheWholeSecretIsTheSecret) {
  EXPECT_TRUE(SameSecret("swordfish", "swordfish"));
  EXPECT_TRUE(SameSecret("", ""));
  for (const char* wrong : {"", "s", "swordfis", "swordfishy", "swordfisH", "Swordfish", "swordfish\n"}) {
    EXPECT_FALSE(SameSecret(wrong, "swordfish")) << wrong;
    EXPECT_FALSE(SameSecret("swordfish", wrong)) << wrong;
  }
}

TEST(SecretTest, EachKeyIsAnother) {
  EXPECT_EQ(RandomKey().size(), 32);
  EXPECT_NE(RandomKey(), RandomKey());
}

}  // namespace
}  // namespace pw
