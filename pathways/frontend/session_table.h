// SessionTable: which live session a host-buffer call or a companion channel belongs to.
//
// Host-buffer calls name a session by a random number, so that a stale or guessing client of another session does not reach it. A companion
// channel names one by the token that both were given; a session may have come before or after its channel.
//
// Strand-confined; outlives all sessions.
#pragma once

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

// The key of initialization_data under which a client gives its companion token.
inline constexpr char kCompanionKey[] = "pathways_companion";

class SessionTable {
 public:
  // A number that nobody can guess. The simulator has its own.
  using Draw = std::function<uint64_t()>;
  static Draw FromTheSystem();
  explicit SessionTable(Draw draw = FromTheSystem()) : draw_(std::move(draw)) {}

  // Returns the session's number. Joins it with its companion channel, if that is there already.
  uint64_t Add(const std::shared_ptr<ClientSession>& session);
  void Remove(uint64_t wire_id, const Attributes& initialization_data);
  // NOT_FOUND if it has ended or never was.
  absl::StatusOr<std::shared_ptr<ClientSession>> Find(uint64_t wire_id);

  // ALREADY_EXISTS if the token has a channel. Joins the channel with its session, if that is there already.
  absl::Status AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> channel);
  void RemoveCompanion(const std::string& token);
  // The channel of the client that was opened with these; null if it has none, or none yet.
  std::shared_ptr<controller::HostCallHandler> CompanionOf(const Attributes& initialization_data) const;

  size_t size() const { return sessions_.size(); }

 private:
  const Draw draw_;
  absl::flat_hash_map<uint64_t, std::weak_ptr<ClientSession>> sessions_;
  absl::flat_hash_map<std::string, uint64_t> session_by_token_;
  absl::flat_hash_map<std::string, std::shared_ptr<controller::HostCallHandler>> companions_;
};

}  // namespace pw::frontend
