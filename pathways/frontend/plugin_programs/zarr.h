// Arrays as zarr v2 directories: ".zarray" (JSON) and one file "i.j.k" for each chunk, row-major, uncompressed. Other tools read and write the same.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"

namespace pw::frontend {

struct ZarrArray {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims dims;
  buffers::Dims chunks;  // the shape of every chunk; those at the end reach over the array's
};

// UNIMPLEMENTED for element types that zarr has no name for.
absl::StatusOr<std::string> ZarrMetadata(const ZarrArray& array);
// UNIMPLEMENTED for compressed arrays and the like, INVALID_ARGUMENT if it makes no sense.
absl::StatusOr<ZarrArray> ParseZarrMetadata(absl::string_view json);

// Both block. `region` of the array, dense row-major; it must be a whole chunk (or the part of one that is in the array) for writing.
absl::Status WriteZarrChunk(const std::filesystem::path& directory, const ZarrArray& array, const buffers::Region& region,
                            const Bytes& data);
absl::StatusOr<Bytes> ReadZarrRegion(const std::filesystem::path& directory, const ZarrArray& array,
                                     const buffers::Region& region);

}  // namespace pw::frontend
