// The identity provider that a controller trusts (docs/security.md): its flags, and the reading of its keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/identity/issuer.h"
#include "pathways/net/sockets/socket.h"

namespace pw {

struct IssuerFlags {
  identity::IssuerOptions issuer;  // --oidc-issuer, --oidc-audience, --oidc-user-claim, --oidc-operators
  std::string keys;                // --oidc-keys: the address or the file of its keys; empty: the issuer says where they are
  std::string authorities;         // --oidc-ca: the authorities of its certificate; empty: the system's
};

// Adds these flags.
void DeclareIssuer(IssuerFlags* options, Flags* flags);

// Returns the issuer of these flags, or nullopt if they name none. INVALID_ARGUMENT says which flag is wrong.
absl::StatusOr<std::optional<identity::Issuer>> IssuerOf(const IssuerFlags& options);

// Reads the keys once, and blocks for it, until `stop` can be read. The error says which document could not be read, and why.
absl::StatusOr<identity::KeySet> ReadIssuerKeys(const IssuerFlags& options, int stop);

// Keeps the keys of an issuer as they are published. Reads them at once, every five minutes, and half a minute after a failure; also when
// a token names an unknown key, but at most every ten seconds. A failure is logged, and the last keys stay in force.
class IssuerKeyReader : public std::enable_shared_from_this<IssuerKeyReader> {
 public:
  // Returns null if the flags name no issuer. `issuer` belongs to `strand`. All outlive the reader.
  static absl::StatusOr<std::shared_ptr<IssuerKeyReader>> Start(IssuerFlags options, identity::Issuer* issuer, Timers* timers,
                                                                Executor* strand);
  // Ends a request that is under way.
  ~IssuerKeyReader();

 private:
  IssuerKeyReader(IssuerFlags options, identity::Issuer* issuer, Timers* timers, Executor* strand, net::Fd stop);
  void Post(void (IssuerKeyReader::*step)());
  void After(absl::Duration delay, void (IssuerKeyReader::*step)());
  void Read();
  void ReadIfOld();
  void Rested() { rests_ = false; }
  void OnRead(absl::StatusOr<identity::KeySet> keys);

  const IssuerFlags options_;
  identity::Issuer* const issuer_;
  Timers* const timers_;
  Executor* const strand_;
  const net::Fd stop_;    // an event that ends the thread's request
  bool known_ = false;    // strand
  bool reads_ = false;    // strand; a request is under way
  bool rests_ = false;    // strand; one has ended less than ten seconds ago
  int64_t readings_ = 0;  // strand
  ThreadPool thread_;     // the last member: it ends before what it uses
};

}  // namespace pw
