#include "pathways/frontend/translation/translations.h"

#include <gtest/gtest.h>

namespace pw::frontend {
namespace {

Bytes B(const std::string& text) { return Bytes::FromString(text); }

std::string Found(Translations& kept, uint64_t client, const std::string& program, const std::string& version = "1.13.0") {
  const auto found = kept.Find(client, version, B(program));
  return found.has_value() ? std::string(found->view()) : "nothing";
}

TEST(TranslationsTest, AClientsOwnServeThatClientAlone) {
  Translations kept;
  kept.Add(7, "1.13.0", B("program"), B("of client 7"));
  EXPECT_EQ(Found(kept, 7, "program"), "of client 7");
  EXPECT_EQ(Found(kept, 8, "program"), "nothing");
  kept.Add(Translations::kEverybody, "1.13.0", B("program"), B("of the helper"));
  EXPECT_EQ(Found(kept, 8, "program"), "of the helper");
  kept.Forget(7);
  EXPECT_EQ(kept.size(), 1u);
}

TEST(TranslationsTest, AreForOneProgramAndOneVersion) {
  Translations kept;
  kept.Add(7, "1.13.0", B("program"), B("translation"));
  EXPECT_EQ(Found(kept, 7, "program", "1.12.0"), "nothing");
  EXPECT_EQ(Found(kept, 7, "programs"), "nothing");
}

TEST(TranslationsTest, ThoseUsedLongestAgoGo) {
  Translations kept({2, 1000});
  kept.Add(7, "1.13.0", B("a"), B("1"));
  kept.Add(7, "1.13.0", B("b"), B("2"));
  EXPECT_EQ(Found(kept, 7, "a"), "1");
  kept.Add(7, "1.13.0", B("c"), B("3"));
  EXPECT_EQ(Found(kept, 7, "b"), "nothing");
  EXPECT_EQ(Found(kept, 7, "a"), "1");
  EXPECT_EQ(Found(kept, 7, "c"), "3");
}

TEST(TranslationsTest, TheirBytesAreLimited) {
  Translations kept({100, 10});
  kept.Add(7, "1.13.0", B("aaaa"), B("1111"));
  EXPECT_EQ(kept.bytes(), 8u);
  kept.Add(7, "1.13.0", B("aaaa"), B("222"));  // again
  EXPECT_EQ(kept.bytes(), 7u);
  kept.Add(7, "1.13.0", B("bb"), B("33"));
  EXPECT_EQ(kept.size(), 1u) << "both have 11 bytes";
  EXPECT_EQ(Found(kept, 7, "bb"), "33");
  kept.Add(7, "1.13.0", B("cccccc"), B("44444"));
  EXPECT_EQ(Found(kept, 7, "cccccc"), "nothing") << "alone too large";
  EXPECT_EQ(kept.bytes(), 4u);
}

}  // namespace
}  // namespace pw::frontend
