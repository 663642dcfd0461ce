#include "pathways/http/client.h"

#include <poll.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/tls/client_stream.h"

namespace pw::http {
namespace {

std::string HeadOf(const Endpoint& endpoint, const Asked& asked) {
  std::string head = absl::StrCat(asked.method, " ", asked.target, " HTTP/1.1\r\nHost: ", endpoint.HostHeader(), "\r\n");
  for (const auto& [name, value] : asked.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  return absl::StrCat(head, "Content-Length: ", asked.body.size(), "\r\nConnection: close\r\n\r\n");
}

// Sends the body as far as the server takes it: one that refuses a request may answer and close before it has read all of it.
absl::Status Send(net::ClientStream* stream, const Endpoint& endpoint, const Asked& asked) {
  PW_RETURN_IF_ERROR(stream->Write(HeadOf(endpoint, asked)));
  return stream->Write({asked.body.view().data(), asked.body.size()});
}

}  // namespace

std::string Endpoint::HostHeader() const {
  const std::string name = host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]");
  return port == (tls ? "443" : "80") ? name : absl::StrCat(name, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& url) {
  absl::string_view rest = url;
  Endpoint endpoint;
  endpoint.tls = absl::ConsumePrefix(&rest, "https://");
  const bool known = endpoint.tls || absl::ConsumePrefix(&rest, "http://");
  rest = absl::StripSuffix(rest, "/");
  endpoint.port = endpoint.tls ? "443" : "80";
  if (const size_t colon = rest.rfind(':'); colon != absl::string_view::npos && !absl::EndsWith(rest, "]")) {
    endpoint.port = std::string(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  if (absl::ConsumePrefix(&rest, "[")) rest = absl::StripSuffix(rest, "]");
  endpoint.host = std::string(rest);
  int port = 0;
  const bool sound = !rest.empty() && rest.size() <= 255 && std::all_of(rest.begin(), rest.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == ':' || c == '_';
  });
  if (known && sound && absl::SimpleAtoi(endpoint.port, &port) && port >= 1 && port <= 65535) return endpoint;
  return absl::InvalidArgumentError(absl::StrCat("'", url, "' is not http://HOST[:PORT] or https://HOST[:PORT]"));
}

void PauseBetween(absl::Duration duration) { ::poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(duration))); }

absl::StatusOr<Answer> Ask(const Endpoint& endpoint, const Asked& asked, const AskOptions& options) {
  const net::Patience patience = {options.limit, options.silence, options.stop};
  PW_ASSIGN_OR_RETURN(const auto stream,
                      net::ClientStream::Open({endpoint.host, endpoint.port, endpoint.tls, options.authorities}, patience));
  const absl::Status sent = Send(stream.get(), endpoint, asked);
  if (absl::IsCancelled(sent)) return sent;
  AnswerParser parser(asked.most_answer_bytes, asked.method != "HEAD");
  char piece[64 << 10];
  while (parser.state() == AnswerParser::State::kMore) {
    absl::StatusOr<size_t> read = stream->Read(absl::MakeSpan(piece));
    if (!read.ok()) return sent.ok() ? read.status() : sent;
    if (*read == 0) return sent.ok() ? absl::UnavailableError("it closed the connection before its answer was whole") : sent;
    parser.Feed({piece, *read});
  }
  if (parser.state() == AnswerParser::State::kRefused) return absl::UnavailableError(parser.reason());
  return parser.Take();
}

}  // namespace pw::http
