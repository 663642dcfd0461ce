#include "pathways/http/logins.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "pathways/base/secret.h"

namespace pw::http {

std::string Logins::Add(Secrets* secrets, size_t most, absl::Time ends) {
  if (secrets->size() == most) secrets->pop_front();
  secrets->push_back({absl::BytesToHexString(make_key_()), ends});
  return secrets->back().text;
}

// Removes the shown secret. Compares it with all secrets, so that the time reveals nothing about them.
bool Logins::Take(Secrets* secrets, absl::string_view shown, absl::Time now) {
  while (!secrets->empty() && secrets->front().ends <= now) secrets->pop_front();
  auto found = secrets->end();
  for (auto it = secrets->begin(); it != secrets->end(); ++it) {
    if (SameSecret(shown, it->text)) found = it;
  }
  if (found == secrets->end()) return false;
  secrets->erase(found);
  return true;
}

std::string Logins::MakeTicket(absl::Time now) { return Add(&tickets_, kMostTickets, now + kTicketLife); }

std::optional<std::string> Logins::UseTicket(absl::string_view ticket, absl::Time now) {
  if (!Take(&tickets_, ticket, now)) return std::nullopt;
  return Open(now);
}

std::string Logins::Open(absl::Time now) { return Add(&sessions_, kMostSessions, now + kSessionLife); }

bool Logins::Check(absl::string_view session, absl::Time now) {
  if (!Take(&sessions_, session, now)) return false;
  sessions_.push_back({std::string(session), now + kSessionLife});
  return true;
}

void Logins::End(absl::string_view session) { Take(&sessions_, session, absl::InfinitePast()); }

}  // namespace pw::http
