// Site: answers the requests of a page that people open in a browser. Every client gets the page's files; clients that have
// logged in also get answers of the process behind the page.
//
//   request             answer                                                requires
//   GET /, /assets/...  the files (static_files.h), no data of this process   nothing
//   GET /api/ticket     {"ticket": ...}, for PAGE#TICKET, which logs in once  the secret or an operator's token
//   GET /api/login      {"session": ...}                                      a ticket, the secret or an operator's token
//   GET /api/logout     ends the session                                      a session or the secret
//   GET /api/NAME       the answer of the source of that name                 a session or the secret
// A client shows a ticket, session, secret or token as "Authorization: Bearer ...". There are no cookies: browsers send cookies to every port
// of a host, and other users of the machine have ports, too. The page keeps its session where only pages of its own address can read it.
//
// Invariants:
//   SU-1  requests for other host names are refused, so that a stranger's page cannot reach this one under its own name (DNS
//         rebinding)
//   SU-2  every answer forbids foreign scripts, styles and connections, and being shown inside another page
//   SU-3  only clients that show a session or the secret get the answer of a source
// Answer may be called on any thread; sources and `admit` are called on the strand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/http/logins.h"
#include "pathways/http/server.h"
#include "pathways/http/static_files.h"

namespace pw::http {

class Site : public std::enable_shared_from_this<Site> {
 public:
  // Answers /api/NAME: calls `done` once, on any thread, with JSON. Without that call, the server closes the browser's connection after a time.
  using Source = std::function<void(const std::string& query, absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> done)>;
  // Checks an operator's token: calls `done` once, on any thread, with true if the token's owner may read everything.
  using Admit = std::function<void(const std::string& token, absl::AnyInvocable<void(bool) &&> done)>;

  struct Options {
    std::vector<std::string> hosts;  // names by which browsers may call it, besides those of the loopback
    std::string secret;              // empty: none
    Admit admit;                     // null: no token logs in
    std::map<std::string, Source> sources;
    std::function<std::string()> make_key;  // returns new random bytes for a ticket or a session (base/secret.h)
  };
  static std::shared_ptr<Site> Create(Options options, StaticFiles files, Executor* executor, Clock* clock) {
    return std::shared_ptr<Site>(new Site(std::move(options), std::move(files), executor, clock));
  }

  void Answer(const Request& request, Server::Answer answer);  // calls `answer` once

 private:
  Site(Options options, StaticFiles files, Executor* executor, Clock* clock);

  bool IsOurs(absl::string_view host) const;
  Response File(const std::string& path) const;
  void AnswerApi(const std::string& name, const std::string& query, const std::string& shown, Server::Answer answer);
  void Give(const char* what, const std::string& shown, Server::Answer answer);
  bool IsSecret(absl::string_view shown) const;

  const Options options_;
  const StaticFiles files_;
  std::set<std::string> hosts_;
  Clock* const clock_;
  Logins logins_;
  Strand strand_;
};

// Returns the value of a parameter in "a=1&b=2", or `otherwise` if it is missing or not a number. Pure.
uint64_t NumberIn(absl::string_view query, absl::string_view name, uint64_t otherwise);

}  // namespace pw::http
