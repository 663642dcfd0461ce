// Caller: what a front door knows of a process with Python functions: the handler of host calls of its sessions. Connection carries the calls.
//
// Invariants:
//   CR-1  each call is completed exactly once: with its answer, or with UNAVAILABLE when the process has closed the connection
// Strand-confined. Kept alive by the connection and by the front end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/session/session.h"

namespace pw::callbacks {

class Caller final : public session::HostCallHandler {
 public:
  using Send = std::function<void(uint64_t number, session::HostCall call)>;
  // `send` passes a call to the process; it does nothing once the connection has closed.
  explicit Caller(Send send) : send_(std::move(send)) {}

  // session::HostCallHandler
  void OnHostCall(session::HostCall call, session::ResultCallback<std::vector<Bytes>> done) override;

  // INVALID_ARGUMENT: there is no such call.
  absl::Status OnAnswer(uint64_t number, absl::StatusOr<std::vector<Bytes>> results);
  void OnClosed();

  // The token under which the process is registered; empty: it is not.
  std::string token;

 private:
  const Send send_;
  bool closed_ = false;
  uint64_t next_ = 1;
  std::map<uint64_t, session::ResultCallback<std::vector<Bytes>>> calls_;
};

}  // namespace pw::callbacks
