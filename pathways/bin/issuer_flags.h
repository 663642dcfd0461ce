// The identity provider that a controller trusts (docs/security.md): its flags, and the reading of its keys.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/identity/cluster_identity.h"

namespace pw {

struct IssuerFlags {
  identity::IssuerOptions issuer;  // --oidc-issuer, --oidc-audience, --oidc-user-claim, --oidc-operators
  std::string keys;                // --oidc-keys: the address or the file of its keys; empty: the issuer says where they are
  std::string authorities;         // --oidc-ca: the authorities of its certificate; empty: the system's
};

// Adds these flags.
void DeclareIssuer(IssuerFlags* options, Flags* flags);

// Reads the keys once, and blocks for it. The error says which document could not be read, and why.
absl::StatusOr<identity::KeySet> ReadIssuerKeys(const IssuerFlags& options);

// Keeps the keys of the identity's issuer as they are published: reads them at once, then every five minutes, every half minute while
// there are none, and when a token names an unknown key, but then at most every ten seconds: strangers can write such tokens. A failure is
// logged, and the last keys stay in force.
class IssuerKeyReader {
 public:
  // The identity belongs to `strand`, where this lives, too. `thread` is for reading. This outlives the tasks of all three executors.
  IssuerKeyReader(IssuerFlags options, identity::ClusterIdentity* identity, Timers* timers, Clock* clock, Executor* strand,
                  Executor* thread);

  // Begins to read. On the strand.
  void Start();
  // Reads no more: from now on, nothing is posted to the timers and to the thread. Any thread.
  void Stop() { stopped_ = true; }

 private:
  void Read();
  void OnRead(absl::StatusOr<identity::KeySet> keys);

  const IssuerFlags options_;
  identity::ClusterIdentity* const identity_;
  Timers* const timers_;
  Clock* const clock_;
  Executor* const strand_;
  Executor* const thread_;
  std::atomic<bool> stopped_{false};
  // On the strand:
  bool known_ = false;
  bool reading_ = false;
  uint64_t readings_ = 0;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace pw
