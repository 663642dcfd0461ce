// HttpsGet: reads a small document of another server over HTTPS, such as an identity provider's keys.
//
// It blocks, so it belongs on a thread that may wait. It follows no redirects. The server must show a certificate for its name.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pw::net {

struct HttpsOptions {
  std::string authorities;  // a file of certificates (PEM) that are trusted; empty: the system's
  absl::Duration limit =
      absl::Seconds(10);        // for connecting, asking and reading; the system decides how long resolving the name takes
  size_t most_bytes = 1 << 20;  // of the answer, its headers included
  int stop = -1;                // a descriptor: when it becomes readable, the request ends; -1: none
};

// Returns the body of the answer to "GET url". INVALID_ARGUMENT: `url` is not https://HOST[:PORT][/PATH]. UNAVAILABLE says what
// went wrong, also if the answer is not 200.
absl::StatusOr<std::string> HttpsGet(const std::string& url, const HttpsOptions& options);

}  // namespace pw::net
