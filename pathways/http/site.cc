#include "pathways/http/site.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/secret.h"

namespace pw::http {
namespace {

constexpr char kApi[] = "/api/";
constexpr char kJson[] = "application/json";

// Allows scripts and styles of the page itself and answers of this server, and nothing else.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

Response Protected(Response response) {
  response.headers = {{"Content-Security-Policy", kPolicy},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Frame-Options", "DENY"}};
  return response;
}

// "127.0.0.1:80" is "127.0.0.1", "[::1]:80" is "[::1]".
std::string WithoutPort(absl::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon != absl::string_view::npos && (bracket == absl::string_view::npos || bracket < colon)) host = host.substr(0, colon);
  return absl::AsciiStrToLower(host);
}

Response Refused() {
  return Protected(
      {.status = 401,
       .body = "log in: open the address that 'pathways page' prints, or show a token: Authorization: Bearer TOKEN\n"});
}

Response JsonOf(const char* key, const std::string& value) {
  JsonWriter json;
  return Protected({.content_type = kJson, .body = json.BeginObject().Key(key).String(value).EndObject().Take()});
}

}  // namespace

uint64_t NumberIn(absl::string_view query, absl::string_view name, uint64_t otherwise) {
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&part, name) && absl::ConsumePrefix(&part, "=") && absl::SimpleAtoi(part, &value)) return value;
  }
  return otherwise;
}

Site::Site(Options options, StaticFiles files, Executor* executor, Clock* clock)
    : options_(std::move(options)),
      files_(std::move(files)),
      hosts_{"localhost", "127.0.0.1", "[::1]"},
      clock_(clock),
      logins_(options_.make_key),
      strand_(executor) {
  for (const std::string& host : options_.hosts) hosts_.insert(absl::AsciiStrToLower(host));
}

bool Site::IsOurs(absl::string_view host) const { return hosts_.contains(WithoutPort(host)); }

Response Site::File(const std::string& path) const {
  const StaticFile* file = files_.Find(path);
  if (file == nullptr) return Protected({.status = 404, .body = "there is no such page\n"});
  return Protected({.content_type = file->content_type, .body = file->bytes});
}

void Site::Answer(const Request& request, Server::Answer answer) {
  if (!IsOurs(request.host)) {
    return std::move(answer)(
        Protected({.status = 421, .body = "this page is not known by that name: use 127.0.0.1, or name it by --page-name\n"}));
  }
  if (!absl::StartsWith(request.path, kApi)) return std::move(answer)(File(request.path));
  if (request.method != "GET") return std::move(answer)(Protected({.status = 405, .body = "only GET is answered here\n"}));
  const std::string shown(absl::StripPrefix(request.authorization, "Bearer "));
  strand_.Post([self = shared_from_this(), name = request.path.substr(sizeof(kApi) - 1), query = request.query, shown,
                answer = std::move(answer)]() mutable { self->AnswerApi(name, query, shown, std::move(answer)); });
}

bool Site::IsSecret(absl::string_view shown) const { return !options_.secret.empty() && SameSecret(shown, options_.secret); }

void Site::AnswerApi(const std::string& name, const std::string& query, const std::string& shown, Server::Answer answer) {
  const absl::Time now = clock_->Now();
  if (name == "login") {
    if (const auto session = logins_.UseTicket(shown, now)) return std::move(answer)(JsonOf("session", *session));
    return Give("session", shown, std::move(answer));
  }
  if (name == "ticket") return Give("ticket", shown, std::move(answer));
  if (!logins_.Check(shown, now) && !IsSecret(shown)) return std::move(answer)(Refused());
  if (name == "logout") {
    logins_.End(shown);
    return std::move(answer)(Protected({.content_type = kJson, .body = "{}"}));
  }
  const auto source = options_.sources.find(name);
  if (source == options_.sources.end())
    return std::move(answer)(Protected({.status = 404, .body = "there is no such question\n"}));
  source->second(query, [answer = std::move(answer)](absl::StatusOr<std::string> json) mutable {
    if (!json.ok()) return std::move(answer)(Protected({.status = 503, .body = absl::StrCat(json.status().message(), "\n")}));
    std::move(answer)(Protected({.content_type = kJson, .body = *std::move(json)}));
  });
}

// Gives a session or a ticket to a client that shows the secret or an operator's token.
void Site::Give(const char* what, const std::string& shown, Server::Answer answer) {
  auto decide = [self = shared_from_this(), what, answer = std::move(answer)](bool may) mutable {
    if (!may) return std::move(answer)(Refused());
    const absl::Time now = self->clock_->Now();
    std::move(answer)(JsonOf(what, what == std::string("ticket") ? self->logins_.MakeTicket(now) : self->logins_.Open(now)));
  };
  if (IsSecret(shown) || shown.empty() || options_.admit == nullptr) return decide(IsSecret(shown));
  options_.admit(shown, [self = shared_from_this(), decide = std::move(decide)](bool may) mutable {
    self->strand_.Post([decide = std::move(decide), may]() mutable { decide(may); });
  });
}

}  // namespace pw::http
