// The world of a device runtime: a fixed set of processes that compute together, numbered, and the store through which their runtimes find
// each other, as in jax.distributed. GPU runtimes need one. A runtime whose programs may span processes that come and go needs none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace pw::device {

// KeyValues: a store that the processes of a world share. A key gets one value, once. Any thread.
class KeyValues {
 public:
  virtual ~KeyValues() = default;
  // ALREADY_EXISTS: the key has another value.
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;
  // Blocks until the key has a value. DEADLINE_EXCEEDED when `timeout` has passed, UNAVAILABLE if no value can come any more.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) = 0;
  // NOT_FOUND: the key has no value now.
  virtual absl::StatusOr<std::string> TryGet(absl::string_view key) = 0;
};

struct World {
  std::string name;  // no other world has or had it
  int node = 0;      // the number of this process
  int nodes = 1;     // the number of processes
  std::shared_ptr<KeyValues> store;
};

}  // namespace pw::device
