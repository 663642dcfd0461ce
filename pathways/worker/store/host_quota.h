// HostQuota: the host memory that the arrays of each session take on their way, and whether the quotas of users have room for more
// (accounts.h).
//
// Each way has an account of its own, and a transfer waits only for others of the same way: so no two ways wait for each other.
//   - kIn: arrays of clients that were requested or have come, until they are on their devices
//   - kOut: copies of arrays for clients, until these have them
//   - kBetween: arrays that come from other hosts or go to them, and parts of them that are copied here
//   - kFiles: tiles that are read from files or written to files
// Arrays that come with their commands are charged when they have come; they wait for nothing. Quotas do not limit the last two ways:
// transfers of a program may need one another, on several hosts. Users share what a host sets aside for them (staging.h, array_files.h).
//
// Invariants:
//   HO-1  bytes are charged from Take until the last copy of its result is gone
//   HO-2  a transfer for which HasRoom was asked, and no other of its way was taken meanwhile, stays within the quota
// Lives on the worker's strand; charges may outlive the rest of a worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/worker/store/accounts.h"

namespace pw::worker {

class HostQuota {
 public:
  enum class Way { kIn, kOut, kBetween, kFiles };
  using Charge = std::shared_ptr<const void>;

  // `accounts` outlives this.
  explicit HostQuota(const Accounts* accounts) : accounts_(accounts) {}
  HostQuota(const HostQuota&) = delete;

  Charge Take(Way way, SessionId session, int64_t bytes);
  // Charges bytes until they are added with the other sign.
  void Add(Way way, SessionId session, int64_t bytes) { AddTo(&(*ways_)[static_cast<size_t>(way)], session, bytes); }
  // Returns whether the session's user may have so many more bytes now. REQUIRES: Check; kIn or kOut.
  bool HasRoom(Way way, SessionId session, int64_t bytes) const;
  // Returns RESOURCE_EXHAUSTED if they are more than the whole quota.
  absl::Status Check(SessionId session, int64_t bytes) const;
  // Returns whether the session's user has such a quota.
  bool Limits(SessionId session) const;
  // Returns why a transfer waits, for people.
  std::string Why(Way way, SessionId session, int64_t bytes) const;

  // Returns the bytes of these sessions, on that of the limited ways where they have most.
  int64_t HeldBy(const std::set<SessionId>& sessions) const;
  bool Holds(SessionId session) const;
  const Accounts& accounts() const { return *accounts_; }
  int64_t charged_bytes() const;  // of all sessions and ways

 private:
  using BySession = absl::flat_hash_map<SessionId, int64_t>;  // without zeros
  static void AddTo(BySession* way, SessionId session, int64_t bytes);
  static int64_t Sum(const BySession& way, const std::set<SessionId>& sessions);
  const BySession& Of(Way way) const { return (*ways_)[static_cast<size_t>(way)]; }

  const Accounts* const accounts_;
  using Ways = std::array<BySession, 4>;
  const std::shared_ptr<Ways> ways_ = std::make_shared<Ways>();
};

}  // namespace pw::worker
