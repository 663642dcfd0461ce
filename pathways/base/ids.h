// Typed identifiers. An id of one kind never converts to another kind or to a number by accident.
//
// Ids are plain values: copied, compared, hashed, sent over the wire as their number. The controller issues all of them.
//   - DeviceId, MemoryId: when a worker joins; dense. Clients see them as IFRT ids.
//   - HostId, IslandId: a host that rejoins gets a new HostId.
//   - SessionId: one for each connected client.
//   - ArrayId: says which request of which session made the array (request_name.h). 0 for arrays that no host has.
//   - ExecutableId: never reused while the controller lives.
//   - OpId: names a command to a host, which answers it with Done; also by its request. Commands to several hosts may have one op.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw {

template <class Tag, class Rep = uint64_t>
struct Id {
  using rep = Rep;
  Rep v{};

  constexpr Id() = default;
  constexpr explicit Id(Rep value) : v(value) {}
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.v);
  }
};

// Returns a name such as "array 17", for messages.
template <class Tag, class Rep>
std::string ToString(Id<Tag, Rep> id) {
  return absl::StrCat(Tag::kName, " ", id.v);
}

struct DeviceIdTag {
  static constexpr const char* kName = "device";
};
struct MemoryIdTag {
  static constexpr const char* kName = "memory";
};
struct HostIdTag {
  static constexpr const char* kName = "host";
};
struct IslandIdTag {
  static constexpr const char* kName = "island";
};
struct SessionIdTag {
  static constexpr const char* kName = "session";
};
struct ArrayIdTag {
  static constexpr const char* kName = "array";
};
struct ExecutableIdTag {
  static constexpr const char* kName = "executable";
};
struct OpIdTag {
  static constexpr const char* kName = "op";
};

using DeviceId = Id<DeviceIdTag, int32_t>;
using MemoryId = Id<MemoryIdTag, int32_t>;
using HostId = Id<HostIdTag, uint32_t>;
using IslandId = Id<IslandIdTag, uint32_t>;
using SessionId = Id<SessionIdTag>;
using ArrayId = Id<ArrayIdTag>;
using ExecutableId = Id<ExecutableIdTag>;
using OpId = Id<OpIdTag>;

}  // namespace pw
