// The messages on the callback socket, between a front door and the Python package in a client's process. In both directions:
//
//   4 bytes   little-endian length of the header
//   header    JSON
//   payload   the arrays named in the header one after another: dense, row-major, a byte an element for types narrower than that
//
//   Python -> door    {"companion":token}                                    first, once
//   door -> Python    {"call":n,"callback":n,"operands":[{"dtype":"f32","dims":[2,3],"bytes":24},...]}
//   Python -> door    {"call":n,"ok":true,"results":[24,...]}                the results' bytes follow
//                     {"call":n,"ok":false,"code":13,"message":text}         an absl::StatusCode
//
// The client picks a random token. The first message carries it, and so does the session's initialization_data under
// "pathways_companion", which pairs the connection with the session; either may come first. A second connection with the same
// token is refused with ALREADY_EXISTS. Each call is answered once, in any order. When the connection ends, all pending calls
// fail with UNAVAILABLE.
//
// Callback 0 belongs to no program: by it the front door asks the client to translate its own program, if the program's StableHLO
// is newer than the devices can read. Operands, both arrays of u8: the program, a StableHLO portable artifact, and the version to
// write it for ("1.13.0"). One result: the program for that version. A client that does not know this callback answers NOT_FOUND.
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/session/session.h"

namespace pw::callbacks {

inline constexpr uint32_t kMaxHeader = 16 << 20;

// Returns the length and the header of a call, which the operands' bytes must follow.
std::string EncodeCall(uint64_t number, const session::HostCall& call);

// The contents of a header from Python.
struct PythonMessage {
  std::string companion;  // not empty: the token; nothing else is set
  uint64_t call = 0;
  absl::Status status;                 // of the call
  std::vector<uint64_t> result_bytes;  // the payload
};

// INVALID_ARGUMENT: not a header of the forms above.
absl::StatusOr<PythonMessage> ParseHeader(const std::string& json);

}  // namespace pw::callbacks
