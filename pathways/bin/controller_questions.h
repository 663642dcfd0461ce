// Sends an operator's requests to a controller: `pathways-controller --status ADDRESS`, `--trace ADDRESS`, `--profile ADDRESS`, `--share ADDRESS`,
// `--suspend ADDRESS`, `--drain ADDRESS` and `--token-create ADDRESS`. ADDRESS is where the controller's clients connect.
// Requests go over a session that only observes: it has no arrays and computes nothing (proto/pathways/v1/session.proto).
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

// Returns the status report as JSON (docs/status.md).
absl::StatusOr<std::string> AskForStatus(const Asked& asked);
// Returns the same report. `asked` has the address where workers join, which answers without a session.
absl::StatusOr<std::string> AskForStatusAsWorker(const Asked& asked);

// Makes the cluster record a trace for `duration`. Only the answer after that has to come within the timeout.
absl::StatusOr<session::ClusterTrace> RecordTrace(const Asked& asked, absl::Duration duration);

struct ProfileWanted {
  absl::Duration duration;
  uint64_t max_bytes = 0;  // of each host; 0: the most that a host keeps
};
// Takes the XSpaces (the events of one host, as XProf reads them), one host after another. RecordProfile stops at its first error.
class ProfileWriter {
 public:
  virtual ~ProfileWriter() = default;
  // Begins the XSpace of the host with this position in ClusterProfile::hosts. `host`, its name, need not be fit for a file's name.
  virtual absl::Status Begin(size_t number, const std::string& host) = 0;
  virtual absl::Status Write(std::string_view piece) = 0;
  // Ends the XSpace. `whole`: all of it was passed to Write.
  virtual absl::Status End(bool whole) = 0;
};
// Makes the cluster record a profile of all clients. Returns the size of each host's XSpace, and the trace of the same time.
absl::StatusOr<session::ClusterProfile> RecordProfile(const Asked& asked, const ProfileWanted& wanted, ProfileWriter* writer);

// Drains a host, or undoes that. Returns the answer as JSON: {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}.
absl::StatusOr<std::string> Drain(const Asked& asked, const std::string& host, bool undo);

// Suspends or resumes a client. Returns the answer as JSON: {"client", "arrays", "bytes"}.
absl::StatusOr<std::string> Suspend(const Asked& asked, uint64_t client, bool resume);

// Changes a client's share of the devices, and returns the new share. NOT_FOUND for an unknown client; INVALID_ARGUMENT.
absl::StatusOr<gang::Share> SetShare(const Asked& asked, uint64_t client, const gang::ShareChange& change);

struct NewToken {
  std::string user;
  std::string role = "user";
  absl::Duration expires = absl::ZeroDuration();  // zero: never
  int64_t uses = 0;                               // 0: any number
};
// Makes a token. Returns the text of a token file (identity/token_file.h) for the asked address.
absl::StatusOr<std::string> CreateToken(const Asked& asked, const NewToken& wanted);
// Returns the tokens as a JSON array, without their secrets.
absl::StatusOr<std::string> ListTokens(const Asked& asked);
absl::StatusOr<std::string> RevokeToken(const Asked& asked, const std::string& id);  // returns {"revoked": id}

// New limits of a user, as text: a number, "none" for no limit, empty for no change.
struct NewQuota {
  std::string user;  // "*": everybody without limits of their own
  std::string sessions, device_seconds, weight, priority, devices, device_memory, host_memory, host_processes;
};
// Changes a user's limits, or only shows limits if no user is named. Returns JSON (session.proto, QuotaQuestion).
absl::StatusOr<std::string> Quotas(const Asked& asked, const NewQuota& wanted);

}  // namespace pw
