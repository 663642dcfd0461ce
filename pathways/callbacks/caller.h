// Caller: sends host calls to one Python process, and completes them with its answers. A host call is the call of a Python
// function from a compiled program (jax.pure_callback and the like). A front door (the agent, or the PJRT plugin) has one Caller
// for each process that is connected to its callback socket; Connection carries the messages.
//
// Invariants:
//   CR-1  each call is completed exactly once: with its answer inside OnAnswer, or with UNAVAILABLE inside OnClosed. A call that
//         comes after OnClosed completes with UNAVAILABLE at once
//   CR-2  answers may come in any order. No call has a time limit: a Python function may take as long as it likes
// Lives on the strand of the front door. The Connection and the front door both own it; the Connection posts OnClosed at its end,
// whichever side closed it.
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
  // `send` passes a call to the process under `number`; it does nothing once the connection has closed.
  explicit Caller(Send send) : send_(std::move(send)) {}

  // session::HostCallHandler
  void OnHostCall(session::HostCall call, session::ResultCallback<std::vector<Bytes>> done) override;

  // Completes a call with its results, or with the error that the function raised. INVALID_ARGUMENT if no such call is under way:
  // the process has broken the protocol, and the connection must end.
  absl::Status OnAnswer(uint64_t number, absl::StatusOr<std::vector<Bytes>> results);
  // Completes all calls with UNAVAILABLE.
  void OnClosed();

  // The process's token, which its sessions carry too. Empty until the front door has accepted it; Connection sets it.
  std::string token;

 private:
  const Send send_;
  bool closed_ = false;
  uint64_t next_ = 1;
  std::map<uint64_t, session::ResultCallback<std::vector<Bytes>>> calls_;
};

}  // namespace pw::callbacks
