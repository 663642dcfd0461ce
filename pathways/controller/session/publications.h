// Publications: the arrays that sessions have published under names (program.proto, Publication), for the sessions of the same user.
//
// A name belongs to the session that claims it, until the session withdraws it or ends. Only its newest version can be asked for. A version keeps
// its arrays for as long as somebody holds it: the name, or a session that reads it. A reader therefore never sees a mixture of two versions.
//
// The arrays are the publisher's: they end with its session, or with their devices. Who has read them has arrays of his own.
//
// Invariants:
//   PU-1  the versions of a name have rising numbers, also from one publisher to the next
//   PU-2  the arrays of a version that nobody holds are freed
// SessionRegistry owns it. Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/controller/session.h"

namespace pw::controller {

class SessionPublications;

struct PublishedVersion {
  struct Array {
    Handle handle = 0;  // of the publisher's session; no client knows it
    std::shared_ptr<const buffers::ArraySpec> spec;
  };
  uint64_t number = 0;
  std::string note;
  std::vector<Array> arrays;
  std::weak_ptr<SessionPublications*> publisher;  // expires when its session ends
};
using VersionRef = std::shared_ptr<const PublishedVersion>;

class Publications {
 public:
  static constexpr size_t kMostNames = 1024;  // of a user
  static constexpr size_t kMostNameBytes = 256;

  // Answers the number of the last version, 0 if there was none. ALREADY_EXISTS if another session has the name.
  absl::StatusOr<uint64_t> Claim(const std::string& user, const std::string& name, SessionId session);
  // Returns the number of the next version. REQUIRES: Owns.
  uint64_t NextNumber(const std::string& user, const std::string& name);
  bool Owns(const std::string& user, const std::string& name, SessionId session) const;
  // The version replaces the one before it, unless a newer one is there or the name has been withdrawn. Tells the sessions.
  void Publish(const std::string& user, const std::string& name, SessionId session, VersionRef version);
  // Returns null if there is none.
  VersionRef Newest(const std::string& user, const std::string& name) const;
  void Withdraw(const std::string& user, const std::string& name, SessionId session);

  void Add(SessionPublications* session) { sessions_.insert(session); }
  // Withdraws all that the session has published.
  void Remove(SessionPublications* session, SessionId id);

 private:
  using Key = std::pair<std::string, std::string>;  // user, name
  struct Name {
    SessionId owner;  // 0: nobody's; kept for the number
    uint64_t last = 0;
    VersionRef newest;
  };

  std::map<Key, Name> names_;
  std::set<SessionPublications*> sessions_;
};

}  // namespace pw::controller
