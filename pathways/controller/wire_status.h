// absl::Status in our messages: code and text verbatim.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

// A code that absl does not know becomes UNKNOWN; 0 is OK whatever the text.
inline absl::Status FromProto(const ::pathways::v1::Status& proto) {
  if (proto.code() == 0) return absl::OkStatus();
  const bool known = proto.code() > 0 && proto.code() <= 16;
  return absl::Status(known ? static_cast<absl::StatusCode>(proto.code()) : absl::StatusCode::kUnknown, proto.message());
}

inline void ToProto(const absl::Status& status, ::pathways::v1::Status* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
}

}  // namespace pw::controller
