// Conversion of statuses between our types and the wire.
#pragma once

#include "absl/status/status.h"
#include "ifrt_proxy/status.pb.h"

namespace pw::frontend {

tensorflow::StatusProto StatusToProto(const absl::Status& status);
// Codes that absl does not know become UNKNOWN.
absl::Status StatusFromProto(const tensorflow::StatusProto& proto);

}  // namespace pw::frontend
