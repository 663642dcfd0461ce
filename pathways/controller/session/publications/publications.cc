#include "pathways/controller/session/publications/publications.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/controller/session/publications/session_publications.h"

namespace pw::controller {

absl::StatusOr<uint64_t> Publications::Claim(const std::string& user, const std::string& name, SessionId session) {
  if (name.empty() || name.size() > kMostNameBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("a name of published arrays has 1 to ", kMostNameBytes, " bytes, not ", name.size()));
  const auto known = names_.find({user, name});
  if (known == names_.end()) {
    const auto first = names_.lower_bound({user, ""});
    size_t count = 0;
    for (auto it = first; it != names_.end() && it->first.first == user; ++it) ++count;
    if (count >= kMostNames)
      return absl::ResourceExhaustedError(
          absl::StrCat("this user has used ", count, " names of published arrays, which is the limit"));
  }
  Name& entry = names_[{user, name}];
  if (entry.owner != SessionId() && entry.owner != session) {
    return absl::AlreadyExistsError(
        absl::StrCat("client ", entry.owner.v, " publishes '", name, "': choose another name, or end that program"));
  }
  entry.owner = session;
  return entry.last;
}

bool Publications::Owns(const std::string& user, const std::string& name, SessionId session) const {
  const auto found = names_.find({user, name});
  return found != names_.end() && found->second.owner == session;
}

uint64_t Publications::NextNumber(const std::string& user, const std::string& name) { return ++names_.at({user, name}).last; }

void Publications::Publish(const std::string& user, const std::string& name, SessionId session, VersionRef version) {
  const auto found = names_.find({user, name});
  if (found == names_.end() || found->second.owner != session) return;
  VersionRef& newest = found->second.newest;
  if (newest != nullptr && newest->number > version->number) return;
  const VersionRef replaced = std::exchange(newest, std::move(version));
  for (SessionPublications* one : sessions_) one->OnPublished(user, name, newest);
}

VersionRef Publications::Newest(const std::string& user, const std::string& name) const {
  const auto found = names_.find({user, name});
  return found == names_.end() ? nullptr : found->second.newest;
}

void Publications::Withdraw(const std::string& user, const std::string& name, SessionId session) {
  const auto found = names_.find({user, name});
  if (found == names_.end() || found->second.owner != session) return;
  found->second.owner = SessionId();
  const VersionRef dropped = std::move(found->second.newest);
}

void Publications::Remove(SessionPublications* session, SessionId id) {
  sessions_.erase(session);
  for (auto& [key, name] : names_) {
    if (name.owner != id) continue;
    name.owner = SessionId();
    const VersionRef dropped = std::move(name.newest);
  }
}

}  // namespace pw::controller
