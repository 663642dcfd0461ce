#include "pathways/storage/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pw::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class FixedClock final : public Clock {
 public:
  absl::Time Now() override { return absl::FromUnixSeconds(1'400'000'000); }
};

// A store whose server answers from a list.
class S3StoreTest : public ::testing::Test {
 protected:
  S3StoreTest()
      : store_("s3", {"s3.test", "443", true},
               {&clock_, [this] { return credentials_; },
                [this](const http::Endpoint&, const http::Asked& asked, const http::AskOptions& options) {
                  asked_.push_back(asked);
                  EXPECT_GE(options.limit, absl::Seconds(60));
                  if (answers_.empty()) return absl::StatusOr<http::Answer>(absl::UnavailableError("it does not listen"));
                  absl::StatusOr<http::Answer> answer = answers_.front();
                  answers_.pop_front();
                  return answer;
                },
                [this](absl::Duration pause) { pauses_.push_back(pause); }}) {}

  static http::Answer With(int status, std::string body = "", std::map<std::string, std::string> headers = {}) {
    return {status, std::move(headers), std::move(body)};
  }
  static http::Answer Error(int status, const std::string& code) {
    return With(status, absl::StrCat("<Error><Code>", code, "</Code><Message>because</Message></Error>"));
  }
  static std::string HeaderOf(const http::Asked& asked, const std::string& name) {
    for (const auto& [key, value] : asked.headers) {
      if (key == name) return value;
    }
    return "none";
  }
  std::vector<std::string> Targets() const {
    std::vector<std::string> targets;
    for (const http::Asked& asked : asked_) targets.push_back(absl::StrCat(asked.method, " ", asked.target));
    return targets;
  }

  FixedClock clock_;
  absl::StatusOr<S3Credentials> credentials_ = S3Credentials{"id", "topsecret", "", "here"};
  std::deque<absl::StatusOr<http::Answer>> answers_;
  std::vector<http::Asked> asked_;
  std::vector<absl::Duration> pauses_;
  const S3Store store_;
  const ObjectName name_{"bucket", "a b/x"};
};

TEST_F(S3StoreTest, AnObjectIsWrittenOnceAndSigned) {
  answers_ = {With(200), Error(412, "PreconditionFailed"), With(200)};
  ASSERT_TRUE(store_.PutNew(name_, Bytes::Copy("data"), "s1").ok());
  EXPECT_THAT(Targets(), ElementsAre("PUT /bucket/a%20b/x", "PUT /bucket/a%20b/x")) << "the first one is tried twice";
  ASSERT_TRUE(store_.PutNew(name_, Bytes::Copy("data"), "s1").ok());
  EXPECT_EQ(asked_.size(), 3u);
  EXPECT_EQ(asked_[0].body.view(), "data");
  EXPECT_EQ(HeaderOf(asked_[0], "if-none-match"), "*");
  EXPECT_EQ(HeaderOf(asked_[0], "x-amz-content-sha256"), HexSha256("data"));
  EXPECT_THAT(HeaderOf(asked_[0], "authorization"), HasSubstr("Credential=id/20140513/here/s3/aws4_request"));
  for (const auto& [name, value] : asked_[0].headers) EXPECT_THAT(value, Not(HasSubstr("topsecret")));
}

TEST_F(S3StoreTest, AServerThatIgnoresConditionsIsRefused) {
  answers_ = {With(200), With(200)};
  const absl::Status status = store_.PutNew(name_, Bytes::Copy("data"), "s1");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("s3.test ignores 'If-None-Match: *'"));
}

TEST_F(S3StoreTest, AnObjectThatExistsIsKnownByItsMark) {
  answers_ = {Error(412, "PreconditionFailed"), With(200, "", {{"x-amz-meta-pathways-mark", "s1"}})};
  EXPECT_TRUE(store_.PutNew(name_, Bytes::Copy("data"), "s1").ok()) << "an earlier attempt's";
  answers_ = {Error(412, "PreconditionFailed"), With(200, "", {{"x-amz-meta-pathways-mark", "s2"}})};
  EXPECT_EQ(store_.PutNew(name_, Bytes::Copy("data"), "s1").code(), absl::StatusCode::kAlreadyExists);
  answers_ = {Error(412, "PreconditionFailed"), With(200)};
  EXPECT_EQ(store_.PutNew(name_, Bytes::Copy("data"), "s1").code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(S3StoreTest, APassingErrorIsRepeatedWithGrowingPauses) {
  answers_ = {Error(503, "SlowDown"), absl::UnavailableError("it did not answer in time"), Error(500, "InternalError"),
              With(200)};
  EXPECT_TRUE(store_.Put(name_, Bytes::Copy("data")).ok());
  EXPECT_EQ(asked_.size(), 4u);
  EXPECT_THAT(pauses_, ElementsAre(absl::Milliseconds(200), absl::Milliseconds(400), absl::Milliseconds(800)));
}

TEST_F(S3StoreTest, AnErrorThatStaysIsToldWithItsReason) {
  for (int i = 0; i < S3Store::kAttempts; ++i) answers_.push_back(Error(503, "SlowDown"));
  const absl::Status slow = store_.Put(name_, Bytes::Copy("data"));
  EXPECT_EQ(slow.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(slow.message(),
            "cannot write s3://bucket/a b/x: the object store s3.test answers 503 SlowDown (because); it was asked 6 times: try "
            "again later");
  EXPECT_EQ(asked_.size(), 6u);
  const absl::Status gone = store_.Put(name_, Bytes::Copy("data"));
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(gone.message(), "cannot write s3://bucket/a b/x: the object store s3.test: it does not listen");
}

TEST_F(S3StoreTest, ARefusalIsNotRepeatedAndHasARemedy) {
  answers_ = {Error(403, "AccessDenied"), Error(404, "NoSuchBucket"), Error(404, "NoSuchKey"), Error(301, "PermanentRedirect"),
              With(400, "<html>")};
  const absl::Status denied = store_.Put(name_, Bytes::Copy("data"));
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(denied.message()),
              HasSubstr("answers 403 AccessDenied (because); give the key in the file of --object-credentials"));
  const absl::Status bucket = store_.Put(name_, Bytes::Copy("data"));
  EXPECT_EQ(bucket.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(bucket.message()), HasSubstr("create the bucket 'bucket'"));
  const absl::Status object = store_.Get(name_, 100).status();
  EXPECT_EQ(object.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(object.message(), "cannot read s3://bucket/a b/x: it does not exist");
  EXPECT_THAT(std::string(store_.Put(name_, Bytes::Copy("data")).message()), HasSubstr("set 'region'"));
  EXPECT_EQ(store_.Put(name_, Bytes::Copy("data")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(asked_.size(), 5u);
  EXPECT_THAT(pauses_, IsEmpty());
}

TEST_F(S3StoreTest, CredentialsAreReadForEachRequest) {
  credentials_ = absl::PermissionDeniedError("others can read it");
  const absl::Status status = store_.Put(name_, Bytes::Copy("data"));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("others can read it"));
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(S3StoreTest, PartsAreReadByTheirRanges) {
  std::string out(4, '?');
  const absl::Span<uint8_t> space(reinterpret_cast<uint8_t*>(out.data()), out.size());
  answers_ = {With(206, "2345", {{"content-range", "bytes 2-5/10"}})};
  ASSERT_TRUE(store_.Read(name_, 10, 2, space).ok());
  EXPECT_EQ(out, "2345");
  EXPECT_EQ(HeaderOf(asked_[0], "range"), "bytes=2-5");
  EXPECT_EQ(asked_[0].most_answer_bytes, 4u);
  answers_ = {With(200, "abcd")};
  EXPECT_TRUE(store_.Read(name_, 4, 0, space).ok()) << "a store may ignore the range of all";
}

TEST_F(S3StoreTest, AnObjectOfAnotherSizeIsDataLoss) {
  std::string out(4, '?');
  const absl::Span<uint8_t> space(reinterpret_cast<uint8_t*>(out.data()), out.size());
  for (const http::Answer& answer :
       {With(206, "2345", {{"content-range", "bytes 2-5/11"}}), With(206, "1234", {{"content-range", "bytes 1-4/10"}}),
        With(206, "2345"), With(206, "234", {{"content-range", "bytes 2-5/10"}}), With(200, "2345"),
        Error(416, "InvalidRange")}) {
    answers_ = {answer};
    EXPECT_EQ(store_.Read(name_, 10, 2, space).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(out, "????");
}

TEST_F(S3StoreTest, AListIsReadPageByPage) {
  const auto page = [](const std::string& key, const std::string& next) {
    return With(200, absl::StrCat("<ListBucketResult><IsTruncated>", next.empty() ? "false" : "true", "</IsTruncated>",
                                  next.empty() ? "" : absl::StrCat("<NextContinuationToken>", next, "</NextContinuationToken>"),
                                  "<Contents><Key>", key, "</Key><Size>1</Size></Contents></ListBucketResult>"));
  };
  answers_ = {page("a/2", "t/1"), page("a/1", "")};
  const auto found = store_.List({"bucket", "a/"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(Pair("a/1", 1), Pair("a/2", 1)));
  EXPECT_THAT(Targets(), ElementsAre("GET /bucket?encoding-type=url&list-type=2&prefix=a%2F",
                                     "GET /bucket?continuation-token=t%2F1&encoding-type=url&list-type=2&prefix=a%2F"));
  answers_ = {page("b/1", "")};
  EXPECT_THAT(std::string(store_.List({"bucket", "a/"}).status().message()), HasSubstr("not asked for"));
  answers_ = {page("a/1", "t"), page("a/1", "t")};
  EXPECT_THAT(std::string(store_.List({"bucket", "a/"}).status().message()), HasSubstr("does not go on"));
  answers_ = {With(200, "<html>")};
  EXPECT_EQ(store_.List({"bucket", "a/"}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(S3StoreTest, RemovingNothingIsNoError) {
  answers_ = {With(204), Error(404, "NoSuchKey"), Error(403, "AccessDenied")};
  EXPECT_TRUE(store_.Delete(name_).ok());
  EXPECT_TRUE(store_.Delete(name_).ok());
  EXPECT_FALSE(store_.Delete(name_).ok());
}

TEST(S3CredentialsTest, ASectionIsRead) {
  const char kText[] =
      "# keys\n[default]\naws_access_key_id = "
      "D\naws_secret_access_key=d/d=\n\n[gs]\naws_access_key_id=G\naws_secret_access_key=g\n"
      "region = auto\naws_session_token = t\n[half]\naws_access_key_id=H\n[bad]\naws_access_key_id=a "
      "b\naws_secret_access_key=hidden\n";
  const auto other = ParseS3Credentials(kText, "s3"), gs = ParseS3Credentials(kText, "gs");
  ASSERT_TRUE(other.ok() && gs.ok());
  EXPECT_EQ(other->key_id, "D");
  EXPECT_EQ(other->secret, "d/d=");
  EXPECT_EQ(other->region, "us-east-1");
  EXPECT_EQ(gs->key_id, "G");
  EXPECT_EQ(gs->region, "auto");
  EXPECT_EQ(gs->session_token, "t");
  EXPECT_THAT(std::string(ParseS3Credentials(kText, "half").status().message()), HasSubstr("[half] has not both of"));
  EXPECT_THAT(std::string(ParseS3Credentials(kText, "bad").status().message()), HasSubstr("[bad] has blanks"));
  EXPECT_THAT(std::string(ParseS3Credentials("", "s3").status().message()), HasSubstr("neither a section [s3] nor [default]"));
}

}  // namespace
}  // namespace pw::storage
