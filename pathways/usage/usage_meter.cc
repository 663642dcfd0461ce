#include "pathways/usage/usage_meter.h"

#include <utility>

namespace pw::usage {

Usage& Usage::operator+=(const Usage& other) {
  device_seconds += other.device_seconds;
  computations += other.computations;
  compile_seconds += other.compile_seconds;
  array_byte_seconds += other.array_byte_seconds;
  sessions += other.sessions;
  return *this;
}

void UsageMeter::Open(SessionId session, std::string user) {
  Session& opened = sessions_[session];
  opened.user = std::move(user);
  opened.used.sessions = 1;
}

void UsageMeter::End(SessionId session) {
  if (auto it = sessions_.find(session); it != sessions_.end()) it->second.ended = true;
}

void UsageMeter::Add(SessionId session, const Usage& used) {
  if (auto it = sessions_.find(session); it != sessions_.end()) it->second.used += used;
}

std::vector<Entry> UsageMeter::Take() {
  std::map<std::string, Usage> by_user;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& session = it->second;
    session.quiet = session.ended && session.used.empty() ? session.quiet + 1 : 0;
    if (!session.used.empty()) by_user[session.user] += std::exchange(session.used, {});
    it = session.quiet >= 2 ? sessions_.erase(it) : std::next(it);
  }
  std::vector<Entry> entries;
  for (auto& [user, used] : by_user) entries.push_back({user, used});
  return entries;
}

}  // namespace pw::usage
