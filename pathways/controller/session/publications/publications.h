// Publications: the arrays that sessions have published under names (program.proto, Publication), for the sessions of the same user.
//
// A name belongs to the session that claims it, until the session withdraws it or ends. Readers get only its newest version. A
// version keeps its arrays while its name or a reading session holds it. So a reader never sees a mixture of two versions.
//
// The arrays belong to the publisher: they end with its session, or with their devices. A reader's arrays are its own.
//
// Invariants:
//   PU-1  the versions of a name have rising numbers, also from one publisher to the next
//   PU-2  the arrays of a version are freed when neither its name nor a reader holds it
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

  // Claims the name. Returns the number of its last version, 0: none. ALREADY_EXISTS if another session has the name.
  absl::StatusOr<uint64_t> Claim(const std::string& user, const std::string& name, SessionId session);
  // Returns the number of the next version. REQUIRES: Owns.
  uint64_t NextNumber(const std::string& user, const std::string& name);
  bool Owns(const std::string& user, const std::string& name, SessionId session) const;
  // Makes the version the newest and tells the sessions, unless a newer one is there or the session has lost the name.
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
    SessionId owner;  // 0: not claimed; the name is kept for its number
    uint64_t last = 0;
    VersionRef newest;
  };

  std::map<Key, Name> names_;
  std::set<SessionPublications*> sessions_;
};

}  // namespace pw::controller
