// Conversion of device layouts. Ours is a serialized xla.LayoutProto, or empty for dense row-major. The wire uses that, a compact form and
// a text form.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ifrt_proxy/ifrt.pb.h"

namespace pw::frontend {

// Returns the row-major layout as text: "{}", "{0}", "{1,0}", ... Never fails.
std::string RowMajorLayoutText(int rank);

// Converts text such as "{0,1}" for an array of this rank. INVALID_ARGUMENT unless it is a permutation of the dimensions; UNIMPLEMENTED for
// tiles and other properties.
absl::StatusOr<std::string> LayoutFromText(absl::string_view text, int rank);

// Converts an xla::ifrt::PjRtLayout or xla::ifrt::CompactLayout. An empty serialized_layout is row-major.
absl::StatusOr<std::string> LayoutFromProto(const xla::ifrt::LayoutProto& proto, int rank);

}  // namespace pw::frontend
