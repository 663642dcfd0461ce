// Boxes of the physical mesh: where devices have coordinates (a TPU's chips), a slice with a mesh shape is contiguous in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "pathways/resource/placement.h"

namespace pw::resource {

// All devices have coordinates, of the same number of axes, three at most.
bool HasMesh(absl::Span<const Candidate* const> devices);

// The devices of a box of that shape, any axis of the shape along any axis of the mesh, in row-major order of the shape; of several
// the one with the least load (if it counts), then the one nearest the origin. Where devices share coordinates (cores of a chip) the
// least loaded is taken. REQUIRES: HasMesh(devices).
std::optional<std::vector<const Candidate*>> FindBox(absl::Span<const Candidate* const> devices, absl::Span<const int64_t> shape,
                                                     bool load_counts);

// "4x4x1": the extent along each axis. REQUIRES: HasMesh(devices).
std::string ExtentOfMesh(absl::Span<const Candidate* const> devices);

}  // namespace pw::resource
