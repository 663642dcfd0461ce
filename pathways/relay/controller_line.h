// ControllerLine: the relay's bulk line to its controller (bulk/line.h), if the controller has such a place and it can be reached.
//
// It is a faster way to what gRPC does too. So whatever goes wrong with the line itself is nobody's error: the caller is told to go the
// other way (`otherwise`), and what that meets is what the client hears.
//
// Invariants:
//   CL-1  each call ends with exactly one of `done` and `otherwise`, on a thread of this class
//   CL-2  `otherwise` has its memory or data back, and no socket writes to it any more
// Any thread. Calls that are under way when it is destroyed end with `otherwise`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/bulk/growing_file.h"
#include "pathways/net/shared_memory.h"

namespace pw::relay {

class ControllerLine {
 public:
  ControllerLine();
  ~ControllerLine();

  // Connects, if it has not done so yet. Until who is there has greeted with the secret, and if he never does, calls go the other way.
  void Open(const std::string& address, const std::string& secret);
  // Ends the line for good.
  void Close();

  struct Buffer {
    uint64_t session = 0;  // as host-buffer calls name it
    uint64_t handle = 0;
  };
  // Fills all of `memory`.
  void Fetch(Buffer buffer, net::SharedMemory memory, absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done,
             absl::AnyInvocable<void(net::SharedMemory) &&> otherwise);
  void Store(Buffer buffer, Bytes data, absl::AnyInvocable<void(absl::Status) &&> done, absl::AnyInvocable<void() &&> otherwise);

  // Large arrays are sent while their files are being written (store_ahead.h). Whether that goes well nobody hears before FinishAhead, which is
  // called once the file has been written, once for a buffer. `otherwise`: nothing of it has been sent that counts; the file is there. After
  // `done` it has gone.
  void SendAhead(Buffer buffer, bulk::GrowingFile file);
  void FinishAhead(Buffer buffer, int64_t bytes, absl::AnyInvocable<void(absl::Status) &&> done,
                   absl::AnyInvocable<void() &&> otherwise);
  // What is sent ahead for a session that has ended.
  void DropAhead(uint64_t session);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pw::relay
