// Handles, callbacks and small types of the interface of a session (session.h).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"

namespace pw::session {

using Handle = uint64_t;                                         // the number of an array, an executable or a run (session.h)
inline constexpr Handle kFirstServerHandle = uint64_t{1} << 62;  // the session chooses handles from here on, the client others

// CompileProgram.format of a program of many nodes.
inline constexpr char kManyNodesFormat[] = "pathways.v1.Program";

// The longest wait of one question, for a slice or for published arrays; then the client asks again.
inline constexpr double kLongestWaitSeconds = 60;

using StatusCallback = absl::AnyInvocable<void(absl::Status) &&>;
template <class T>
using ResultCallback = absl::AnyInvocable<void(absl::StatusOr<T>) &&>;

// The treatment of the inputs of a copying operation.
enum class CopySemantics { kAlwaysCopy, kReuseInput, kDonateInput };

// Data type, shape and strides of an array in host memory. No strides: dense, row-major.
struct HostLayout {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims dims;
  std::optional<buffers::Dims> byte_strides;
};

}  // namespace pw::session
