// absl::Status in our messages: code and text verbatim.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pathways/base/status_code.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

inline absl::Status FromProto(const ::pathways::v1::Status& proto) { return StatusFrom(proto.code(), proto.message()); }

inline void ToProto(const absl::Status& status, ::pathways::v1::Status* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
}

}  // namespace pw::controller
