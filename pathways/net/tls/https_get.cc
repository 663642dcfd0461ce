#include "pathways/net/tls/https_get.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/tls/client_stream.h"

namespace pw::net {
namespace {

struct Url {
  std::string host, port = "443", path = "/";
};

absl::StatusOr<Url> ParseUrl(const std::string& text) {
  absl::string_view rest = text;
  const bool sound = absl::ConsumePrefix(&rest, "https://") && text.size() <= 2048 &&
                     std::all_of(rest.begin(), rest.end(), [](char c) { return absl::ascii_isgraph(c) && c != '@' && c != '#'; });
  Url url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  absl::string_view place = rest.substr(0, slash);
  if (slash < rest.size()) url.path = std::string(rest.substr(slash));
  if (const size_t colon = place.rfind(':'); colon != absl::string_view::npos && !absl::EndsWith(place, "]")) {
    url.port = std::string(place.substr(colon + 1));
    place = place.substr(0, colon);
  }
  if (absl::ConsumePrefix(&place, "[")) place = absl::StripSuffix(place, "]");
  url.host = std::string(place);
  int port = 0;
  if (!sound || url.host.empty() || !absl::SimpleAtoi(url.port, &port) || port < 1 || port > 65535)
    return absl::InvalidArgumentError("an address of a document is https://HOST[:PORT]/PATH");
  return url;
}

// Returns whether an answer has all bytes that its header "content-length" announces. Many servers close without TLS's goodbye
// after them, which without such a header could be an answer that somebody has cut.
bool IsWhole(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string headers = absl::AsciiStrToLower(answer.substr(0, end + 2));
  const std::string name = "\r\ncontent-length:";
  const size_t at = headers.find(name);
  if (at == std::string::npos) return false;
  const size_t begin = at + name.size();
  uint64_t length = 0;
  const std::string text = headers.substr(begin, headers.find("\r\n", begin) - begin);
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &length) && answer.size() - end - 4 >= length;
}

absl::StatusOr<std::string> Ask(ClientStream* stream, const std::string& request, size_t most_bytes) {
  PW_RETURN_IF_ERROR(stream->Write(request));
  std::string answer;
  for (;;) {
    char piece[8192];
    PW_ASSIGN_OR_RETURN(const size_t read, stream->Read(absl::MakeSpan(piece)));
    if (read == 0) return answer;
    answer.append(piece, read);
    if (answer.size() > most_bytes)
      return absl::UnavailableError(absl::StrCat("the answer has more than ", most_bytes, " bytes"));
    if (IsWhole(answer)) return answer;
  }
}

// Returns the body of an HTTP/1.x answer whose end is the end of the connection.
absl::StatusOr<std::string> BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  const std::string headers = absl::AsciiStrToLower(answer.substr(0, std::min(end, answer.size())));
  const std::string first = headers.substr(0, headers.find("\r\n"));
  if (!absl::StartsWith(first, "http/1.") || end == std::string::npos) return absl::UnavailableError("it does not speak HTTP/1");
  if (first.substr(std::min<size_t>(first.find(' '), first.size()), 5) != " 200 " && !absl::EndsWith(first, " 200"))
    return absl::UnavailableError(absl::StrCat("the answer is '", answer.substr(0, std::min<size_t>(first.size(), 80)), "'"));
  if (absl::StrContains(headers, "\r\ntransfer-encoding: chunked"))
    return absl::UnavailableError("the answer comes in chunks, which HTTP/1.0 does not have");
  return answer.substr(end + 4);
}

}  // namespace

absl::StatusOr<std::string> HttpsGet(const std::string& url, const HttpsOptions& options) {
  PW_ASSIGN_OR_RETURN(const Url to, ParseUrl(url));
  const Patience patience = {options.limit, absl::InfiniteDuration(), options.stop};
  PW_ASSIGN_OR_RETURN(const auto stream, ClientStream::Open({to.host, to.port, true, options.authorities}, patience));
  const std::string request =
      absl::StrCat("GET ", to.path, " HTTP/1.0\r\nHost: ", to.host, "\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
  PW_ASSIGN_OR_RETURN(const std::string answer, Ask(stream.get(), request, options.most_bytes));
  return BodyOf(answer);
}

}  // namespace pw::net
