// The messages between the bridge and the Python package over the callback socket. Both directions:
//
//   4 bytes   little-endian length of the header
//   header    JSON
//   payload   the arrays named in the header one after another: dense, row-major, a byte an element for types narrower than that
//
//   bridge -> Python  {"call":n,"callback":n,"operands":[{"dtype":"f32","dims":[2,3],"bytes":24},...]}
//   Python -> bridge  {"companion":token}                                    first, once
//                     {"call":n,"ok":true,"results":[24,...]}                the results' bytes follow
//                     {"call":n,"ok":false,"code":13,"message":text}         an absl::StatusCode
//
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/v1/client.pb.h"

namespace pw::relay {

inline constexpr uint32_t kMaxHeader = 16 << 20;

// Length and header of a call; the operands' bytes follow it.
std::string EncodeCall(const pathways::v1::HostCallRequest& call);

// What one header from Python says.
struct PythonMessage {
  std::string companion;  // set in the first message only
  pathways::v1::HostCallAnswer answer;  // with empty results, one per entry of `result_sizes`
  std::vector<size_t> result_sizes;     // of the payload
};

// INVALID_ARGUMENT: not a header of the forms above.
absl::StatusOr<PythonMessage> ParseHeader(const std::string& json);

}  // namespace pw::relay
