// Device layouts. Ours is a serialized xla.LayoutProto, empty for dense row-major; the wire has that, a compact form and a text form.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ifrt_proxy/ifrt.pb.h"

namespace pw::frontend {

// "{}", "{0}", "{1,0}", ...: the row-major layout, as text. Never fails.
std::string RowMajorLayoutText(int rank);

// Of an array of this rank, from text such as "{0,1}". INVALID_ARGUMENT unless it is a permutation of the dimensions; UNIMPLEMENTED for
// tiles and other properties.
absl::StatusOr<std::string> LayoutFromText(absl::string_view text, int rank);

// From xla::ifrt::PjRtLayout or xla::ifrt::CompactLayout. Empty serialized_layout: row-major.
absl::StatusOr<std::string> LayoutFromProto(const xla::ifrt::LayoutProto& proto, int rank);

}  // namespace pw::frontend
