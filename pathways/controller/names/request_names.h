// SessionNames: gives names to all that a session makes on the hosts (base/request_name.h): ids of arrays, transfers and fetches, and ops of
// commands. SessionContext owns it. names/ is a room of its own because sessions and programs both count names, and neither includes the other.
// The format of names stands in base/, because hosts read it.
//
// While the session carries out a numbered request, names are those of the request, counted from 0 on. Work that a request causes later,
// when hosts or clients have answered, takes its names in advance: a NameScope. The order in which such work goes on depends on the
// hosts; the names do not, because each piece of work counts in a scope of its own. So scopes are taken in an order that the request
// alone determines, and are as large as the work may need. A scope holds its request (unsettled_requests.h).
//
// Outside of requests, and where a name of the request does not fit into its number, names are the session's own.
//
// Not named here: executables, launches over several hosts and gangs (Fabric, Gangs). Executables are another kind of names. Launches
// and gangs belong to the order of an island, which sessions share.
//
// Pure.
//
// Invariants:
//   NS-1  names of one kind (ids, ops) are given once in the life of the session, and no other session gives them. The ops of several
//         hosts may be equal: an op names a command to its host
//   NS-2  the names of a request depend on nothing but what is asked of it and its scopes, in that order
//   NS-3  an exhausted scope gives own names: nothing is counted past the end of its field. CheckRoom tells it before
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/base/request_name.h"
#include "pathways/controller/names/unsettled_requests.h"

namespace pw::controller {

// The numbers of names that some work needs, at most. An op counts once for all hosts that have it.
struct NameNeed {
  uint64_t ids = 0;
  uint64_t ops = 0;
  // Stops at more than any request may have, instead of overflowing.
  NameNeed& operator+=(const NameNeed& more);
};
// Returns a need with room for both, one or the other.
NameNeed Larger(const NameNeed& a, const NameNeed& b);

// The own names of a session.
class OwnNames {
 public:
  explicit OwnNames(SessionId session) : session_(session) {}
  // Take neighbours. None: the session has had all of its own names, or `count` is more than a block.
  std::optional<RequestName> TakeIds(uint64_t count) { return Take(count, RequestName::kOwnBlock, &ids_); }
  std::optional<RequestName> TakeOps(uint64_t count) { return Take(count, RequestName::kOwnBlock / 2, &ops_); }
  // RESOURCE_EXHAUSTED if they cannot be taken.
  absl::Status CheckRoom(const NameNeed& need) const;
  SessionId session() const { return session_; }

 private:
  std::optional<RequestName> Take(uint64_t count, uint64_t block, uint64_t* next) const;

  const SessionId session_;
  uint64_t ids_ = 0;
  uint64_t ops_ = 0;
};

class NameScope {
 public:
  // Gives own names only.
  explicit NameScope(std::shared_ptr<OwnNames> own) : own_(std::move(own)) {}
  // Gives all names of a request, which `hold` holds.
  NameScope(std::shared_ptr<OwnNames> own, uint64_t request, RequestHold hold);

  uint64_t NextId();
  // Returns the first of `count` names, whose numbers are RequestName::kStep apart.
  uint64_t ReserveIds(uint64_t count);
  // Returns the name of one more command to the host.
  OpId NextOp(HostId host);
  // Returns an op that no host has yet: for the commands of any hosts. `joint`: hosts may report them together (IsJointOp).
  OpId NextOpOfAll(bool joint = false);
  // Takes names for later work.
  NameScope Take(const NameNeed& need);
  // Returns another hold of the scope's request; none outside of requests.
  RequestHold hold() const { return hold_; }

  // Returns OK if the scope has these names, or own ones stand in for them; else RESOURCE_EXHAUSTED.
  absl::Status CheckRoom(const NameNeed& need) const;

 private:
  // Names from `first` on, of which `used` are given. The counts of ops are without the joint bit.
  struct Names {
    RequestName first;
    uint64_t size = 0;
    uint64_t used = 0;
    uint64_t left() const { return size - used; }
  };
  std::optional<RequestName> OpAt(uint64_t k) const;
  OpId OwnOp(bool joint);
  uint64_t UsedOps() const;

  std::shared_ptr<OwnNames> own_;
  RequestHold hold_;
  Names ids_, ops_;
  absl::flat_hash_map<HostId, uint64_t> ops_of_;  // ops of single hosts, from ops_.used on
};

class SessionNames {
 public:
  explicit SessionNames(SessionId session) : own_(std::make_shared<OwnNames>(session)), scope_(own_) {}

  // Begins and ends a request. REQUIRES: request > 0.
  void Begin(uint64_t request) { scope_ = NameScope(own_, request, RequestHold(unsettled_, request)); }
  void End() { scope_ = NameScope(own_); }
  // Returns the names for what the session makes now.
  NameScope& now() { return scope_; }
  const NameScope& now() const { return scope_; }
  const std::shared_ptr<UnsettledRequests>& unsettled() const { return unsettled_; }

  // Takes names for a part of what is made now, and gives those while it exists. Parts before others, such as the first results of a
  // request, may fail or not, as hosts come and go; the names of the others do not depend on that.
  class Part {
   public:
    Part(SessionNames* names, const NameNeed& need) : names_(names), rest_(names->own_) {
      NameScope part = names->scope_.Take(need);
      rest_ = std::exchange(names->scope_, std::move(part));
    }
    ~Part() { names_->scope_ = std::move(rest_); }
    Part(const Part&) = delete;

   private:
    SessionNames* const names_;
    NameScope rest_;
  };
  // Makes names the session's own while it exists: for work that a request does not determine, although it may begin during one.
  class Outside {
   public:
    explicit Outside(SessionNames* names) : names_(names), inside_(std::exchange(names->scope_, NameScope(names->own_))) {}
    ~Outside() { names_->scope_ = std::move(inside_); }
    Outside(const Outside&) = delete;

   private:
    SessionNames* const names_;
    NameScope inside_;
  };

 private:
  const std::shared_ptr<OwnNames> own_;
  const std::shared_ptr<UnsettledRequests> unsettled_ = std::make_shared<UnsettledRequests>();
  NameScope scope_;
};

}  // namespace pw::controller
