// ArraySave: a save of several arrays to one location, by processes of several hosts. Each process writes its tiles; when all have, one commits.
//
// A process may end at any moment, also by kill -9. Each array is then as it was before the save or as it is after it. All methods block, and may be
// called in any process of any host at once.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/sharding.h"
#include "pathways/storage/zarr.h"

namespace pw::storage {

struct NamedArray {
  std::string name;  // a folder below the location: parts separated by '/', none of them "." or ".."
  ZarrArray array;
};

// INVALID_ARGUMENT if this cannot be the name of an array in a folder.
absl::Status CheckArrayName(const std::string& name);
// INVALID_ARGUMENT if this cannot be the name of a save: letters and digits.
absl::Status CheckSaveId(const std::string& id);

class ArraySave {
 public:
  // A host that has written tiles, with its name for errors.
  struct Writer {
    HostId host;
    std::string name;
  };
  enum class Dropped {
    kRemoved,    // the written tiles are removed
    kCompleted,  // the save had been committed, and is complete now
    kAbsent,     // the save has no files: it was never begun, was completed, or was removed
    kRemains,    // remains are removed: no host had written all its tiles, or a removal was cut short
  };

  virtual ~ArraySave() = default;

  // Comes before the first tile of an array that this process writes.
  virtual absl::Status Begin(const NamedArray& array) const = 0;
  // Writes the chunk of this region (zarr.h, WriteZarrChunk).
  virtual absl::Status WriteTile(const NamedArray& array, const buffers::Region& region, const Bytes& data) const = 0;
  // Notes that the host has written all its tiles of an array.
  virtual absl::Status AddHost(HostId host) const = 0;
  // Makes the arrays visible. FAILED_PRECONDITION names a writer whose tiles this process does not see, because they do not share the location.
  virtual absl::Status Commit(const std::vector<NamedArray>& arrays, const std::vector<Writer>& writers) const = 0;
  // Removes what was written, or completes the save if it is committed.
  virtual absl::StatusOr<Dropped> Drop() const = 0;
};

}  // namespace pw::storage
