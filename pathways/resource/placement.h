// Placement: chooses the physical devices of a virtual slice (paper 4.1). Pure functions of the request and the candidate devices.
//
// A slice is in one island, on devices of one kind: a *group*. Within a group the least loaded devices are taken; a device's load is
// the number of virtual devices of all clients on it. Among equally loaded devices, the fewest hosts are used.
//
// Invariants:
//   PC-1  a placement has distinct devices, as many as requested, all of one group, that satisfy every constraint
//   PC-2  unless hosts, shape or exclusiveness say otherwise, no chosen device had a higher load than a device that could have been
//         chosen instead
//   PC-3  a mesh shape is an axis-aligned box of the physical mesh if the group's devices have coordinates, with devices in
//         row-major order; otherwise it is a count
//   PC-4  the same question has the same answer
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"

namespace pw {
// A virtual slice. The controller issues the ids and never reuses one.
struct SliceIdTag {
  static constexpr const char* kName = "slice";
};
using SliceId = Id<SliceIdTag>;
}  // namespace pw

namespace pw::resource {

enum class HostChoice {
  kAny,     // least load first, then few hosts
  kSpread,  // least load first, then many hosts
  kPack,    // the fewest hosts first, then least load
};

struct SliceRequest {
  int64_t count = 0;
  std::vector<int64_t> shape;     // empty, or 1 to 3 extents whose product is `count`
  std::string platform;           // "tpu", "gpu" or empty. A cluster of CPU devices stands in for either.
  std::string kind;               // device kind; empty: any
  std::string island;             // by name; empty: any
  std::optional<SliceId> beside;  // place it in the island of this slice
  int64_t memory_per_device = 0;  // bytes reserved for the slice on each of its devices
  HostChoice hosts = HostChoice::kAny;
  bool exclusive = false;  // its devices carry no other slice
};

// One physical device as a candidate for placement.
struct Candidate {
  DeviceId id;
  HostId host;
  IslandId island;
  std::string island_name;
  std::string platform;
  std::string kind;
  std::vector<int64_t> coords;  // in the physical mesh; empty: none
  int64_t memory_limit = 0;     // 0: unknown, any amount fits
  int load = 0;                 // virtual devices
  int64_t memory_reserved = 0;
  int exclusive = 0;     // number of exclusive slices on it; if not 0, it takes no other slice
  bool drained = false;  // it takes no new slice
};

// kNow: devices are occupied as they are now. kEmpty: as if there were no slices.
enum class Against { kNow, kEmpty };

// Returns why the request is invalid in any cluster, as a text for INVALID_ARGUMENT, or empty if it is valid.
std::string Malformed(const SliceRequest& request);

// The input of Place. `beside`: the island of the slice request.beside, if it names one. `may_use`: returns whether an island is considered.
struct Question {
  const SliceRequest& request;
  Against against = Against::kNow;
  std::optional<IslandId> beside;
  absl::FunctionRef<bool(IslandId)> may_use;
};
// Returns the devices in the order of the slice's virtual devices, or nullopt if the request does not fit. `candidates` ascend by id.
std::optional<std::vector<DeviceId>> Place(absl::Span<const Candidate> candidates, const Question& question);

// Returns the islands in which the request would fit if there were no slices.
std::set<IslandId> FittingIslands(absl::Span<const Candidate> candidates, const SliceRequest& request,
                                  std::optional<IslandId> beside);

// Returns why the request cannot fit, and the nearest request that would. REQUIRES: FittingIslands is empty.
std::string NearestFit(absl::Span<const Candidate> candidates, const SliceRequest& request, std::optional<IslandId> beside);

}  // namespace pw::resource
