// Site: what a Server answers for a page that people open in a browser: the page's files to everybody, and answers of the process behind it to those who
// have logged in.
//
//   GET /, /assets/...    the files (static_files.h), which tell nothing about this process
//   GET /api/ticket       {"ticket": ...}, for an address that logs in once: PAGE#TICKET. To those who show the secret or an operator's token
//   GET /api/login        {"session": ...}. To those who show a ticket, the secret or an operator's token
//   GET /api/logout       ends the session
//   GET /api/NAME         the answer of the source of that name. To those who show a session or the secret
// Whatever is shown is shown as "Authorization: Bearer ...". There are no cookies: browsers send these to every port of a host, and other users of the
// machine have ports too. The page keeps its session where only pages of its own address can read it.
//
// Invariants:
//   SI-1  requests for other hosts are refused, so that no page of a stranger reaches this one under the stranger's name (DNS rebinding)
//   SI-2  every answer forbids scripts, styles and connections of others, and being shown inside another page
//   SI-3  an answer of a source goes to those alone who have shown a session or the secret
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
#include "pathways/base/clock.h"
#include "pathways/base/strand.h"
#include "pathways/http/logins.h"
#include "pathways/http/server.h"
#include "pathways/http/static_files.h"

namespace pw::http {

class Site : public std::enable_shared_from_this<Site> {
 public:
  // Calls `done` once, on any thread, with JSON; if it never does, the browser's connection is closed in time.
  using Source = std::function<void(const std::string& query, absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> done)>;
  // Calls `done` once, on any thread: whether it is a token of somebody who may read everything.
  using Admit = std::function<void(const std::string& token, absl::AnyInvocable<void(bool) &&> done)>;

  struct Options {
    std::vector<std::string> hosts;  // by which browsers may call it, beside the names of the loopback
    std::string secret;              // empty: none
    Admit admit;                     // may be null
    std::map<std::string, Source> sources;
    std::function<std::string()> make_key;
  };
  static std::shared_ptr<Site> Create(Options options, StaticFiles files, Executor* executor, Clock* clock) {
    return std::shared_ptr<Site>(new Site(std::move(options), std::move(files), executor, clock));
  }

  void Answer(const Request& request, Server::Answer answer);

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

// Returns the value of a parameter in "a=1&b=2", and `otherwise` if it has none, or one that is no number. Pure.
uint64_t NumberIn(absl::string_view query, absl::string_view name, uint64_t otherwise);

}  // namespace pw::http
