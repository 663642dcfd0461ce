// Place: a client's location for arrays, in a folder that the hosts share or in an object store. Places decides which locations a client may use.
//
// All methods but Places::Resolve block.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "pathways/storage/array_save.h"
#include "pathways/storage/files.h"
#include "pathways/storage/object_store.h"

namespace pw::storage {

class Place {
 public:
  virtual ~Place() = default;

  // Returns this process's part of the save of this name.
  virtual std::shared_ptr<const ArraySave> Save(const std::string& id) const = 0;
  // Returns an array with the chunks that it has here, after completing the location's committed saves. NOT_FOUND; INVALID_ARGUMENT: it has another
  // type or shape than `wanted`.
  virtual absl::StatusOr<ZarrArray> Open(const NamedArray& wanted) const = 0;
  // Reads a region of an array that Open has returned.
  virtual absl::StatusOr<Bytes> Read(const NamedArray& array, const buffers::Region& region) const = 0;
};

// The stores for objects, by the schemes with which clients name them, such as "s3" and "gs".
struct ObjectStores {
  std::map<std::string, std::shared_ptr<const ObjectStore>> by_scheme;
  // What users of the cluster other than this process's own may use, such as "s3://bucket/{user}", where {user} stands for the user. Empty: nothing.
  std::string users_below;
};

// Constant: any thread.
class Places {
 public:
  Places() = default;
  Places(Roots roots) : roots_(std::move(roots)) {}  // NOLINT(google-explicit-constructor): folders alone are places
  Places(Roots roots, ObjectStores stores) : roots_(std::move(roots)), stores_(std::move(stores)) {}

  // As Roots::Resolve. Objects of a scheme that has no store are files.
  absl::StatusOr<std::shared_ptr<const Place>> Resolve(const std::string& location, const std::string& user = "") const;

 private:
  Roots roots_;
  ObjectStores stores_;
};

}  // namespace pw::storage
