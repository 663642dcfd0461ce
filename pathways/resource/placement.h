// Placement: which physical devices a virtual slice gets (paper 4.1). Pure functions of what is asked and of what is there.
//
// A slice lives in one island, on devices of one kind: a *group*. Within a group the least loaded devices are taken, load being the
// number of virtual devices of all clients that a device already carries. Where that leaves a choice, the fewest hosts are used.
//
// Invariants:
//   PL-1  a placement has distinct devices, as many as asked for, all of one group, that satisfy every constraint
//   PL-2  unless hosts, shape or exclusiveness say otherwise, no device that was taken carried more than one that could have been
//         taken instead
//   PL-3  a mesh shape is an axis-aligned box of the physical mesh where the group's devices have coordinates, devices in
//         row-major order; elsewhere it is a count
//   PL-4  the same question has the same answer
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
// A virtual slice. The controller hands them out, and never one twice.
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
  std::string kind;               // as devices call it; empty: any
  std::string island;             // by name; empty: any
  std::optional<SliceId> beside;  // in the island of this slice
  int64_t memory_per_device = 0;  // bytes set aside for the slice on each of its devices
  HostChoice hosts = HostChoice::kAny;
  bool exclusive = false;  // its devices carry no other slice
};

// One physical device as placement sees it.
struct Candidate {
  DeviceId id;
  HostId host;
  IslandId island;
  std::string island_name;
  std::string platform;
  std::string kind;
  std::vector<int64_t> coords;  // in the physical mesh; empty: it has none
  int64_t memory_limit = 0;     // 0: not known, any amount fits
  int load = 0;                 // virtual devices
  int64_t memory_reserved = 0;
  int exclusive = 0;     // how many of them are exclusive: then nothing else goes there
  bool drained = false;  // nothing new goes there
};

// Whether what other slices hold counts.
enum class Against { kNow, kEmpty };

// A request that makes sense at all: INVALID_ARGUMENT text for people, or empty. Does not look at the cluster.
std::string Malformed(const SliceRequest& request);

// In the order of the slice's virtual devices; nullopt if the request does not fit. `may_use`: islands to be considered. `island`: that
// of request.beside, if it names a slice. `candidates` ascending by id.
struct Question {
  const SliceRequest& request;
  Against against = Against::kNow;
  std::optional<IslandId> beside;
  absl::FunctionRef<bool(IslandId)> may_use;
};
std::optional<std::vector<DeviceId>> Place(absl::Span<const Candidate> candidates, const Question& question);

// The islands in which the request would fit if nothing else were there.
std::set<IslandId> FittingIslands(absl::Span<const Candidate> candidates, const SliceRequest& request,
                                  std::optional<IslandId> beside);

// Why it cannot fit, and the nearest thing that would. REQUIRES: FittingIslands is empty.
std::string NearestFit(absl::Span<const Candidate> candidates, const SliceRequest& request, std::optional<IslandId> beside);

}  // namespace pw::resource
