#include "pathways/storage/s3_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace pw::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kPage[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix/><KeyCount>2</KeyCount>
  <IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b&lt;&#43;</NextContinuationToken>
  <Contents><Key>step/w/0.0</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;x&quot;</ETag><Size>16</Size><Owner><ID>me</ID></Owner></Contents>
  <Contents><Size>0</Size><Key>a+b%2Bc%C3%A4</Key></Contents>
  <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>
</ListBucketResult>
)";

std::string Changed(absl::string_view from, absl::string_view to) {
  EXPECT_TRUE(absl::StrContains(kPage, from)) << from;
  return absl::StrReplaceAll(kPage, {{from, to}});
}

std::string WhyNot(const std::string& xml) {
  const auto page = ParseS3Page(xml);
  return page.ok() ? "accepted" : std::string(page.status().message());
}

TEST(S3PageTest, KeysAndSizesAreRead) {
  const auto page = ParseS3Page(kPage);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->objects, ElementsAre(Pair("step/w/0.0", 16), Pair("a b+c\xc3\xa4", 0)));
  EXPECT_EQ(page->next, "a&b<+");
}

TEST(S3PageTest, TheLastPageHasNoNext) {
  const auto page = ParseS3Page("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->next, "");
  EXPECT_TRUE(page->objects.empty());
}

TEST(S3PageTest, WhatIsNotAsTheProtocolSaysIsRefused) {
  EXPECT_THAT(WhyNot(""), HasSubstr("is cut off"));
  EXPECT_THAT(WhyNot("<ListBucketResult>"), HasSubstr("is cut off"));
  EXPECT_THAT(WhyNot("<ListBucketResult></ListBucketResult"), HasSubstr("is cut off"));
  EXPECT_THAT(WhyNot("<Other/>"), HasSubstr("is none"));
  EXPECT_THAT(WhyNot("<a></b>"), HasSubstr("do not fit"));
  EXPECT_THAT(WhyNot("</a>"), HasSubstr("end without a beginning"));
  EXPECT_THAT(WhyNot("<a/><b/>"), HasSubstr("tag that is none"));
  EXPECT_THAT(WhyNot("<!DOCTYPE a [<!ENTITY e \"x\">]><a/>"), HasSubstr("document type"));
  EXPECT_THAT(WhyNot("<![CDATA[x]]>"), HasSubstr("document type"));
  std::string deep;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&deep, "<a>");
  EXPECT_THAT(WhyNot(deep), HasSubstr("tag that is none"));
  EXPECT_THAT(WhyNot(Changed("<Size>16</Size>", "<Size>-16</Size>")), HasSubstr("without a size"));
  EXPECT_THAT(WhyNot(Changed("<Size>16</Size>", "")), HasSubstr("without a name or a size"));
  EXPECT_THAT(WhyNot(Changed("<Key>step/w/0.0</Key>", "<Key></Key>")), HasSubstr("without a name or a size"));
  EXPECT_THAT(WhyNot(Changed("%C3", "%C")), HasSubstr("encoded in an unknown way"));
  EXPECT_THAT(WhyNot(Changed("&#43;", "&#;")), HasSubstr("unknown way"));
  EXPECT_THAT(WhyNot(Changed("&#43;", "&#300;")), HasSubstr("unknown way"));
  EXPECT_THAT(WhyNot(Changed("&lt;", "&own;")), HasSubstr("unknown way"));
  EXPECT_THAT(WhyNot(Changed("<IsTruncated>true", "<IsTruncated>false")), HasSubstr("does not say how it goes on"));
  EXPECT_THAT(WhyNot(Changed("<IsTruncated>true", "<IsTruncated>maybe")), HasSubstr("is none"));
}

TEST(S3PageTest, ObjectsAreLimited) {
  std::string many = "<ListBucketResult><IsTruncated>false</IsTruncated>";
  for (int i = 0; i < 10'001; ++i) absl::StrAppend(&many, "<Contents><Key>k</Key><Size>1</Size></Contents>");
  EXPECT_THAT(WhyNot(many + "</ListBucketResult>"), HasSubstr("longer than was asked for"));
}

TEST(S3ErrorTest, CodeAndMessageAreReadAndPrintable) {
  const S3Error error = ParseS3Error(
      "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>No\n &amp; no</Message><Resource>/b</Resource></Error>");
  EXPECT_EQ(error.code, "AccessDenied");
  EXPECT_EQ(error.message, "No? & no");
  EXPECT_EQ(ParseS3Error("<Error><Code>" + std::string(1000, 'x') + "</Code></Error>").code.size(), 200u);
  EXPECT_EQ(ParseS3Error("<html><Code>x</Code></html>").code, "");
  EXPECT_EQ(ParseS3Error("<Error><Code>x</Code>").code, "");
  EXPECT_EQ(ParseS3Error("").code, "");
}

}  // namespace
}  // namespace pw::storage
