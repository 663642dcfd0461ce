// Arrays as zarr v2 directories: ".zarray" (JSON) and one file or object "i.j.k" for each chunk, row-major, uncompressed. Other zarr tools can read
// and write them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"
#include "pathways/storage/files.h"

namespace pw::storage {

struct ZarrArray {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims dims;
  buffers::Dims chunks;  // the shape of every chunk; chunks at the end extend beyond the array
};

// The name of the file that describes an array.
inline constexpr char kZarrMetadataFile[] = ".zarray";

// UNIMPLEMENTED for element types without a zarr name.
absl::StatusOr<std::string> ZarrMetadata(const ZarrArray& array);
// UNIMPLEMENTED for compressed arrays and other features, INVALID_ARGUMENT for invalid metadata.
absl::StatusOr<ZarrArray> ParseZarrMetadata(absl::string_view json);

// Where chunks are: in files, or objects. `file`: a chunk's name, such as "0.1".
// Returns the reader of a chunk of `bytes` bytes, which fills a span with the bytes from an offset on. NOT_FOUND or DATA_LOSS: the chunk is missing,
// or has another size.
using ReadChunk = std::function<absl::Status(int64_t offset, absl::Span<uint8_t> out)>;
using OpenChunk = std::function<absl::StatusOr<ReadChunk>(const std::string& file, int64_t bytes)>;
using WriteChunk = std::function<absl::Status(const std::string& file, const Bytes& data)>;
OpenChunk ChunksIn(const Folder& directory);

// Checks that all chunks of the array are there, each with all its bytes. NOT_FOUND or DATA_LOSS names the first that is missing or not whole.
// Blocks.
absl::Status CheckZarrChunks(const OpenChunk& open, const ZarrArray& array);

// Writes the bytes of `region`, dense and row-major. It must be a whole chunk (or the part of one that is in the array). Blocks.
absl::Status WriteZarrChunk(const WriteChunk& write, const ZarrArray& array, const buffers::Region& region, const Bytes& data);
// Returns the bytes of `region`, dense and row-major. Chunks that cannot be read into place pass through memory in slabs of at
// most `slab_bytes`. Blocks. REQUIRES: the region is in the array.
absl::StatusOr<Bytes> ReadZarrRegion(const OpenChunk& open, const ZarrArray& array, const buffers::Region& region,
                                     int64_t slab_bytes = int64_t{16} << 20);

// The same for chunks that are files of a folder.
absl::Status CheckZarrChunks(const Folder& directory, const ZarrArray& array);
absl::Status WriteZarrChunk(const Folder& directory, const ZarrArray& array, const buffers::Region& region, const Bytes& data);
absl::StatusOr<Bytes> ReadZarrRegion(const Folder& directory, const ZarrArray& array, const buffers::Region& region,
                                     int64_t slab_bytes = int64_t{16} << 20);

}  // namespace pw::storage
