// Compile options for PJRT: the client's options plus the placement.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

// INVALID_ARGUMENT if the options do not parse or the devices do not fit the counts.
absl::StatusOr<std::string> PlaceOptions(const CompileRequest& request, const Client& client);

}  // namespace pw::device::pjrt
