// SessionTable: finds the live session of a host-buffer call, and the process that answers a session's host calls (its companion). It also counts
// what the sessions of its server have done.
//
// Host-buffer calls name a session by a random number, so that an old or guessed number does not reach another client's session.
// A companion and its sessions carry the same token; either may come first.
//
// Strand-confined; must outlive all sessions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/convert/attributes.h"

namespace pw::frontend {

class ClientSession;

// The key of initialization_data for the companion token.
inline constexpr char kCompanionKey[] = "pathways_companion";

// Counts of the work that a server has done for its clients since its start, for its metrics.
struct ServedCounts {
  uint64_t sessions = 0;                   // that were opened
  std::array<uint64_t, 64> requests = {};  // that were carried out, by kind (IfrtRequest::RequestCase); at 0: of unknown kinds
  int64_t request_bytes = 0;               // of these requests, on the wire
};

class SessionTable {
 public:
  // Returns an unguessable number. The simulator has its own source.
  using Draw = std::function<uint64_t()>;
  static Draw FromTheSystem();
  explicit SessionTable(Draw draw = FromTheSystem()) : draw_(std::move(draw)) {}

  // Returns the session's number. Connects it to its companion, if that is already there.
  uint64_t Add(const std::shared_ptr<ClientSession>& session);
  void Remove(uint64_t wire_id, const Attributes& initialization_data);
  // NOT_FOUND if the session has ended or never existed.
  absl::StatusOr<std::shared_ptr<ClientSession>> Find(uint64_t wire_id);

  // ALREADY_EXISTS if the token has a channel. Connects the channel to its session, if that is already there.
  absl::Status AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> channel);
  void RemoveCompanion(const std::string& token);
  // Returns the channel of the client with this initialization_data; null if there is none (yet).
  std::shared_ptr<controller::HostCallHandler> CompanionOf(const Attributes& initialization_data) const;

  size_t size() const { return sessions_.size(); }
  ServedCounts& counts() { return counts_; }

 private:
  const Draw draw_;
  ServedCounts counts_;
  absl::flat_hash_map<uint64_t, std::weak_ptr<ClientSession>> sessions_;
  absl::flat_hash_map<std::string, uint64_t> session_by_token_;
  absl::flat_hash_map<std::string, std::shared_ptr<controller::HostCallHandler>> companions_;
};

}  // namespace pw::frontend
