// Logins: tickets and sessions of a page's readers. Pure: no clock, no randomness of its own.
//
//   a reader who may log in others ──MakeTicket──► a ticket, in the address that a browser opens ──UseTicket──► a session
//
// A ticket is valid once and for a short time, because terminals and browsers' histories show addresses. A session is a secret of
// the page in the browser; it ends after a time without use.
//
// Invariants:
//   LG-1  a ticket opens one session at most
//   LG-2  there are at most kMostTickets and kMostSessions; one more removes the oldest ticket, or the least recently used
//         session
// Strand-confined.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace pw::http {

class Logins {
 public:
  static constexpr size_t kMostTickets = 16;
  static constexpr size_t kMostSessions = 64;
  static constexpr absl::Duration kTicketLife = absl::Minutes(10);
  static constexpr absl::Duration kSessionLife = absl::Hours(12);  // from its last use

  // `make_key` returns new random bytes at each call (base/secret.h).
  explicit Logins(std::function<std::string()> make_key) : make_key_(std::move(make_key)) {}

  std::string MakeTicket(absl::Time now);
  // Returns a new session, or nullopt if the ticket is unknown, used or too old.
  std::optional<std::string> UseTicket(absl::string_view ticket, absl::Time now);
  std::string Open(absl::Time now);  // returns a new session
  // Returns whether the session is open, and prolongs it.
  bool Check(absl::string_view session, absl::Time now);
  void End(absl::string_view session);

 private:
  struct Secret {
    std::string text;  // hexadecimal digits
    absl::Time ends;
  };
  using Secrets = std::deque<Secret>;  // the first to end is in front

  std::string Add(Secrets* secrets, size_t most, absl::Time ends);
  static bool Take(Secrets* secrets, absl::string_view shown, absl::Time now);

  const std::function<std::string()> make_key_;
  Secrets tickets_;
  Secrets sessions_;
};

}  // namespace pw::http
