// Calls from a session's programs to Python functions of its client.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/basics.h"

namespace pw::session {

// A call from a running computation to a Python function of the client (jax.pure_callback and the like).
struct HostCall {
  uint64_t callback = 0;
  std::vector<HostLayout> operands;
  std::vector<Bytes> data;
};

// Answers host calls. callbacks::Caller implements it for the Python functions of a process. Strand-confined.
class HostCallHandler {
 public:
  virtual ~HostCallHandler() = default;
  virtual void OnHostCall(HostCall call, ResultCallback<std::vector<Bytes>> done) = 0;
};
// The error of a call for which there is no handler.
inline absl::Status NoHostCallHandler() {
  return absl::FailedPreconditionError(
      "a program calls a Python function, but its client has no channel for that any more, or never had: "
      "it needs the pathways package in the client's process");
}

}  // namespace pw::session
