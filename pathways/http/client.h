// Ask: one request to another party's HTTP/1.1 server, such as an object store, and its answer. Each request has its own connection.
//
// It blocks, so it belongs on a thread that may wait. It follows no redirects and sends nothing but what the request says and "Host",
// "Content-Length" and "Connection".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/http/answer.h"

namespace pw::http {

// A server, of the address http://HOST[:PORT] or https://HOST[:PORT].
struct Endpoint {
  std::string host, port;
  bool tls = true;

  // Returns the value of "Host": with the port, unless it is the usual one.
  std::string HostHeader() const;
};
// INVALID_ARGUMENT for anything else, such as an address with a path.
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& url);

struct Asked {
  std::string method;
  std::string target;  // path and query, encoded
  std::vector<std::pair<std::string, std::string>> headers;
  Bytes body;
  size_t most_answer_bytes = 1 << 20;
};

struct AskOptions {
  std::string authorities;                     // a file of certificates (PEM) that are trusted; empty: the system's
  absl::Duration limit = absl::Seconds(60);    // of all together
  absl::Duration silence = absl::Seconds(30);  // in which no byte comes or goes
  int stop = -1;                               // a descriptor: when it becomes readable, the request ends; -1: none
};

// Waits this long before a request that a server asks to repeat later.
void PauseBetween(absl::Duration duration);

// Returns the answer, of any status. UNAVAILABLE: there is none, and why. CANCELLED: by `stop`.
absl::StatusOr<Answer> Ask(const Endpoint& endpoint, const Asked& asked, const AskOptions& options);

}  // namespace pw::http
