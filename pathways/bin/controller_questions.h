// Sends an operator's requests to a controller: `pathways-controller --status ADDRESS`, `--trace ADDRESS`, `--profile ADDRESS`, `--share ADDRESS`,
// `--suspend ADDRESS`, `--drain ADDRESS` and `--token-create ADDRESS`. ADDRESS is where the controller's clients connect.
// Requests go over an observer's session (proto/pathways/v1/session.proto).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/gang/share.h"
#include "pathways/identity/credentials.h"
#include "pathways/session/session.h"

namespace pw {

// The controller to ask.
struct Asked {
  std::string address;
  absl::Duration timeout;
  identity::CredentialOptions credentials;
};

// Returns the report (docs/status.md).
absl::StatusOr<std::string> AskForStatus(const Asked& asked);
// Returns the report from the address where the controller's workers join.
absl::StatusOr<std::string> AskForStatusAsWorker(const Asked& asked);

// Makes the cluster record for `duration`, on top of the time for the answer.
absl::StatusOr<session::ClusterTrace> RecordTrace(const Asked& asked, absl::Duration duration);

struct ProfileWanted {
  absl::Duration duration;
  uint64_t max_bytes = 0;  // of each host; 0: the most that a host keeps
};
// Takes the XSpaces of the hosts of a profile, one after another. An error ends the profile.
class ProfileWriter {
 public:
  virtual ~ProfileWriter() = default;
  // A host's XSpace begins. `host` comes from the controller, and need not fit a file's name.
  virtual absl::Status Begin(size_t number, const std::string& host) = 0;
  virtual absl::Status Write(std::string_view piece) = 0;
  // `whole`: all of it has come.
  virtual absl::Status End(bool whole) = 0;
};
// Makes the cluster record a profile of all clients. Returns what the hosts have recorded, and the trace of the same time.
absl::StatusOr<session::ClusterProfile> RecordProfile(const Asked& asked, const ProfileWanted& wanted, ProfileWriter* writer);

// Drains a host, or undoes that. Returns the answer as JSON: {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}.
absl::StatusOr<std::string> Drain(const Asked& asked, const std::string& host, bool undo);

// Suspends or resumes a client. Returns the answer as JSON: {"client", "arrays", "bytes"}.
absl::StatusOr<std::string> Suspend(const Asked& asked, uint64_t client, bool resume);

// Changes a client's share of the devices; INVALID_ARGUMENT, NOT_FOUND.
absl::StatusOr<gang::Share> SetShare(const Asked& asked, uint64_t client, const gang::ShareChange& change);

struct NewToken {
  std::string user;
  std::string role = "user";
  absl::Duration expires = absl::ZeroDuration();  // zero: never
  int64_t uses = 0;                               // 0: any number
};
// Returns the text of a token file for the asked address.
absl::StatusOr<std::string> CreateToken(const Asked& asked, const NewToken& wanted);
// Returns a JSON array.
absl::StatusOr<std::string> ListTokens(const Asked& asked);
absl::StatusOr<std::string> RevokeToken(const Asked& asked, const std::string& id);

// New limits of a user, as text: a number, "none" for no limit, empty for no change.
struct NewQuota {
  std::string user;  // "*": everybody without limits of their own
  std::string sessions, device_seconds, weight, priority, devices, device_memory, host_memory, host_processes;
};
// Changes a user's limits, or only shows limits if no user is named. Returns JSON (session.proto, QuotaQuestion).
absl::StatusOr<std::string> Quotas(const Asked& asked, const NewQuota& wanted);

}  // namespace pw
