// What the relay knows of the IFRT proxy's frames: enough to note which requests are unanswered, and to answer them itself once
// the controller is gone. Array data, programs and everything else pass unread.
//
// Invariants:
//   FR-1  every answer made here is one that the stock client survives: get_default_layout gets a valid layout (an error there
//         aborts the client's process), and what only tidies up succeeds; the rest gets the error it is given
//   FR-2  an answer made here carries no seq_num and no user contexts: the client then merely keeps its tracebacks
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace pw::relay {

// A request or response as far as the relay reads it.
struct Frame {
  uint64_t op_id = 0;
  int kind = 0;               // the number of the oneof's field, the same in request and response; 0: none (an error response)
  int layout_rank = 0;        // get_default_layout requests: the number of dimensions
  bool relay_future = false;  // check_future requests: about a future that this file made up
};

Frame ReadRequest(const grpc::ByteBuffer& request);
Frame ReadResponse(const grpc::ByteBuffer& response);

// A host buffer that a request makes an array of, and how large it will be; 0: that is not known here.
struct HostBuffer {
  uint64_t handle = 0;
  int64_t bytes = 0;
};
// None for other requests than those to make arrays from host buffers.
std::vector<HostBuffer> HostBuffersOf(int kind, const grpc::ByteBuffer& request);

// The session_id of an init response, or 0 if it is none.
uint64_t ReadSessionId(const grpc::ByteBuffer& response);

// What the client hears in the controller's place. REQUIRES: !gone.ok()
grpc::ByteBuffer Answer(const Frame& request, const absl::Status& gone);

// "{2,1,0}" for rank 3: the last dimension is the fastest.
std::string RowMajorLayout(int rank);

inline constexpr int kInit = 2;

}  // namespace pw::relay
