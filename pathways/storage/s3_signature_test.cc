#include "pathways/storage/s3_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::storage {
namespace {

using ::testing::HasSubstr;

// The examples of Amazon's documentation, "Signature Calculations for the Authorization Header".
class SignS3Test : public ::testing::Test {
 protected:
  static S3Request Signed(S3Request request, const std::string& body = "") {
    const absl::Time at = absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
    request.headers["host"] = "examplebucket.s3.amazonaws.com";
    SignS3({"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", "us-east-1"}, HexSha256(body), at, &request);
    return request;
  }
  static std::string SignatureOf(const S3Request& request, const std::string& body = "") {
    const std::string header = Signed(request, body).headers["authorization"];
    return header.substr(header.rfind('=') + 1);
  }
};

TEST_F(SignS3Test, AGetOfARange) {
  const S3Request request = Signed({"GET", "/test.txt", {}, {{"range", "bytes=0-9"}}});
  EXPECT_EQ(request.headers.at("authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(request.headers.at("x-amz-date"), "20130524T000000Z");
}

TEST_F(SignS3Test, APut) {
  EXPECT_EQ(SignatureOf({"PUT",
                         "/test$file.text",
                         {},
                         {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}},
                        "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST_F(SignS3Test, AQueryWithoutAValue) {
  EXPECT_EQ(SignatureOf({"GET", "/", {{"lifecycle", ""}}, {}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST_F(SignS3Test, AList) {
  EXPECT_EQ(SignatureOf({"GET", "/", {{"max-keys", "2"}, {"prefix", "J"}}, {}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_F(SignS3Test, ASessionTokenIsSigned) {
  S3Request request{"GET", "/x", {}, {{"host", "h"}}};
  SignS3({"id", "secret", "token", "eu-west-1"}, HexSha256(""), absl::UnixEpoch(), &request);
  EXPECT_EQ(request.headers.at("x-amz-security-token"), "token");
  EXPECT_THAT(request.headers.at("authorization"),
              HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
  EXPECT_THAT(request.headers.at("authorization"), HasSubstr("/19700101/eu-west-1/s3/aws4_request,"));
}

TEST(UriEncodeTest, OnlyUnreservedCharactersStay) {
  EXPECT_EQ(UriEncode("aZ9-._~/ +%\xc3\xa4", false), "aZ9-._~/%20%2B%25%C3%A4");
  EXPECT_EQ(UriEncode("a/b", true), "a%2Fb");
  EXPECT_EQ(TargetOf({"GET", "/b/k k", {{"prefix", "a/b"}, {"list-type", "2"}}, {}}), "/b/k%20k?list-type=2&prefix=a%2Fb");
  EXPECT_EQ(TargetOf({"GET", "/b", {}, {}}), "/b");
}

}  // namespace
}  // namespace pw::storage
