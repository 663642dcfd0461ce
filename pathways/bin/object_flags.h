// The flags of a process whose host saves arrays to object stores and loads them from there (storage/place.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/storage/place.h"

namespace pw {

struct ObjectFlags {
  std::vector<std::string> stores;  // SCHEME=URL
  std::string credentials;
  std::string users_objects;
};

void DeclareObjects(ObjectFlags* options, Flags* flags);
// Returns the stores. INVALID_ARGUMENT or the error of reading the credentials, naming the flag.
absl::StatusOr<storage::ObjectStores> ObjectStoresFrom(const ObjectFlags& options);

}  // namespace pw
