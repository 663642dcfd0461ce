// Boxes of the physical mesh. If devices have coordinates (a TPU's chips), a slice with a mesh shape is contiguous in the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "pathways/resource/placement.h"

namespace pw::resource {

// Returns true if all devices have coordinates with the same number of axes, three at most.
bool HasMesh(absl::Span<const Candidate* const> devices);

// Returns the devices of a box of `shape` in row-major order of the shape; any axis of the shape may lie along any axis of the
// mesh. Of several boxes it returns the one with the least load (if `load_counts`); among equals the first by orientation and
// origin. Of devices that share coordinates (cores of a chip) it takes the least loaded. REQUIRES: HasMesh(devices).
std::optional<std::vector<const Candidate*>> FindBox(absl::Span<const Candidate* const> devices, absl::Span<const int64_t> shape,
                                                     bool load_counts);

// Returns the extent along each axis, such as "4x4x1". REQUIRES: HasMesh(devices).
std::string ExtentOfMesh(absl::Span<const Candidate* const> devices);

}  // namespace pw::resource
