// Versions of single messages, independent of the protocol's version. A message carries the version in which it changed last.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pw::frontend {

// RemapPlanProto: version 6 names shards by device (jaxlib 0.12). XlaCompileOptionsProto and CustomCallCompileOptionsProto: version 4 can
// ask for bundles of outputs.
inline constexpr int32_t kNewestRemapPlan = 6;
inline constexpr int32_t kNewestXlaCompileOptions = 4;
inline constexpr int32_t kNewestCustomCallOptions = 4;

// UNIMPLEMENTED for a message that is newer than this server: its fields may have another meaning.
inline absl::Status CheckVersion(absl::string_view message, int32_t version, int32_t newest = 0) {
  if (version >= 0 && version <= newest) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("this server reads ", message, " up to version ", newest,
                                               ", and the client sent version ", version,
                                               ": install a newer release of pathways on the cluster, or an older jaxlib"));
}

}  // namespace pw::frontend
