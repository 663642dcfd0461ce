// Accounts: the users whose use of this host is limited, and their sessions, as the controller tells (housekeeping.proto, HostConfig).
//
// A session stays in its user's account after its end, until the host holds nothing of it any more, and the last limits apply to
// commands of it that are still under way. So a user cannot get more by ending sessions.
//
// Invariant AU-1: a session is in one account at most.
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::worker {

struct Account {
  std::string user;
  std::optional<int64_t> device_bytes;      // of arrays, on each device; contents that were moved out of it count
  std::optional<int64_t> host_bytes;        // of arrays on their way from clients, and on their way to them
  std::optional<int64_t> python_processes;  // on this host
  std::set<SessionId> sessions;
};

class Accounts {
 public:
  Accounts() = default;
  Accounts(const Accounts&) = delete;

  // Replaces the accounts. `holds`: whether the host holds anything of a session; `ended`: whether the session has ended.
  void Set(const pathways::v1::HostConfig& config, absl::FunctionRef<bool(SessionId)> holds, absl::FunctionRef<bool(SessionId)> ended);
  // Returns null for a session of a user without limits. Valid until the next Set.
  const Account* Of(SessionId session) const;
  // Returns who shares with others by turns: the user of a session, or the session itself if its user has no limits.
  std::string OwnerOf(SessionId session) const;
  const std::map<std::string, Account>& all() const { return accounts_; }  // by user

 private:
  std::map<std::string, Account> accounts_;
  absl::flat_hash_map<SessionId, const Account*> of_;
};

}  // namespace pw::worker
