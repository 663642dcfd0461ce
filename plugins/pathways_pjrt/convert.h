// Converts layouts between the forms of the session, of XLA's text and of the C API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"
#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {

// Returns the order of dimensions, minor first, of a serialized xla.LayoutProto. Row-major if it is empty or does not parse.
std::vector<int64_t> OrderOf(const std::string& layout, size_t rank);

// Returns XLA's text of a layout without tiles, such as {1,0}.
std::string TextOf(absl::Span<const int64_t> minor_to_major);

// Returns the byte strides of the host's layout of a dense array; nullopt for row-major. A null `layout` is row-major.
// UNIMPLEMENTED for tiles.
absl::StatusOr<std::optional<buffers::Dims>> StridesOf(const PJRT_Buffer_MemoryLayout* layout, buffers::DType dtype,
                                                       absl::Span<const int64_t> dims);

// Returns OK if the host requests row-major or no layout on the device, else UNIMPLEMENTED.
absl::Status CheckRowMajor(const PJRT_Buffer_MemoryLayout* layout, buffers::DType dtype, absl::Span<const int64_t> dims);

}  // namespace pw::pathways_pjrt
