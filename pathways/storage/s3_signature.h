// The signatures of Amazon S3's requests ("AWS Signature Version 4", in the header Authorization). Servers that imitate S3 ask for them too. Pure.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace pw::storage {

struct S3Credentials {
  std::string key_id;
  std::string secret;
  std::string session_token;  // of credentials that end; empty: none
  std::string region = "us-east-1";
};

struct S3Request {
  std::string method;
  std::string path;                          // "/bucket/key", not encoded
  std::map<std::string, std::string> query;  // not encoded
  // All headers that are sent and signed, "host" among them; names in lower case. SignS3 adds its own.
  std::map<std::string, std::string> headers;
};

// Adds the headers x-amz-date, x-amz-content-sha256, authorization, and x-amz-security-token if the credentials have one. `body_sha256`: of the
// body's bytes, in hexadecimal digits.
void SignS3(const S3Credentials& credentials, const std::string& body_sha256, absl::Time now, S3Request* request);

// Encodes all but letters, digits and "-._~" as %XX; a slash only if `slashes`.
std::string UriEncode(absl::string_view text, bool slashes);
// Returns the path and the query as they are sent: "/bucket/key?a=b".
std::string TargetOf(const S3Request& request);
// Returns the SHA-256 in hexadecimal digits.
std::string HexSha256(absl::string_view data);

}  // namespace pw::storage
