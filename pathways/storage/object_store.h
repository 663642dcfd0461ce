// ObjectStore: a store of objects that other machines see too, such as Amazon S3. An object is written whole or not at all.
//
// Errors name the object and say what the operator can do. All methods block, and may be called on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"

namespace pw::storage {

struct ObjectName {
  std::string bucket;
  std::string key;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Short text that says whose object this is; stored with it.
  using Mark = std::string;

  // Replaces the object.
  virtual absl::Status Put(const ObjectName& name, const Bytes& data) const = 0;
  // Writes an object that does not exist yet. ALREADY_EXISTS: it does, and has another mark.
  virtual absl::Status PutNew(const ObjectName& name, const Bytes& data, const Mark& mark) const = 0;
  // Returns an object's mark; empty: it has none. NOT_FOUND: there is no object.
  virtual absl::StatusOr<Mark> GetMark(const ObjectName& name) const = 0;
  // Returns the bytes of an object. NOT_FOUND; another error if it has more than `limit` bytes.
  virtual absl::StatusOr<Bytes> Get(const ObjectName& name, int64_t limit) const = 0;
  // Fills `out` with the bytes from `offset` on. NOT_FOUND; DATA_LOSS: the object has not `bytes` bytes.
  virtual absl::Status Read(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const = 0;
  // Returns all keys that begin with name.key, sorted, with the sizes of their objects.
  virtual absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> List(const ObjectName& name) const = 0;
  // OK if there is no such object.
  virtual absl::Status Delete(const ObjectName& name) const = 0;
  // Returns the object's name for people: "s3://bucket/key".
  virtual std::string Display(const ObjectName& name) const = 0;
};

}  // namespace pw::storage
