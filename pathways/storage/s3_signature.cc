#include "pathways/storage/s3_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/base/sha256.h"

namespace pw::storage {
namespace {

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  PW_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
                text.size(), digest, &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

std::string QueryOf(const S3Request& request) {
  return absl::StrJoin(request.query, "&", [](std::string* out, const auto& field) {
    absl::StrAppend(out, UriEncode(field.first, true), "=", UriEncode(field.second, true));
  });
}

std::string SignedHeaders(const S3Request& request) {
  return absl::StrJoin(request.headers, ";", [](std::string* out, const auto& header) { out->append(header.first); });
}

std::string CanonicalRequest(const S3Request& request, const std::string& body_sha256) {
  std::string text = absl::StrCat(request.method, "\n", UriEncode(request.path, false), "\n", QueryOf(request), "\n");
  for (const auto& [name, value] : request.headers) absl::StrAppend(&text, name, ":", absl::StripAsciiWhitespace(value), "\n");
  return absl::StrCat(text, "\n", SignedHeaders(request), "\n", body_sha256);
}

}  // namespace

std::string HexSha256(absl::string_view data) { return absl::BytesToHexString(Sha256({data.data(), data.size()})); }

std::string UriEncode(absl::string_view text, bool slashes) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && !slashes)) {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "%", absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return out;
}

std::string TargetOf(const S3Request& request) {
  const std::string path = UriEncode(request.path, false);
  return request.query.empty() ? path : absl::StrCat(path, "?", QueryOf(request));
}

void SignS3(const S3Credentials& credentials, const std::string& body_sha256, absl::Time now, S3Request* request) {
  const std::string date = absl::FormatTime("%Y%m%d", now, absl::UTCTimeZone()),
                    time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  request->headers["x-amz-date"] = time;
  request->headers["x-amz-content-sha256"] = body_sha256;
  if (!credentials.session_token.empty()) request->headers["x-amz-security-token"] = credentials.session_token;
  const std::string scope = absl::StrCat(date, "/", credentials.region, "/s3/aws4_request");
  const std::string text =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", HexSha256(CanonicalRequest(*request, body_sha256)));
  std::string key = absl::StrCat("AWS4", credentials.secret);
  for (const absl::string_view part : {absl::string_view(date), absl::string_view(credentials.region), absl::string_view("s3"),
                                       absl::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  const std::string signed_headers = SignedHeaders(*request);
  request->headers["authorization"] =
      absl::StrCat("AWS4-HMAC-SHA256 Credential=", credentials.key_id, "/", scope, ",SignedHeaders=", signed_headers,
                   ",Signature=", absl::BytesToHexString(HmacSha256(key, text)));
}

}  // namespace pw::storage
