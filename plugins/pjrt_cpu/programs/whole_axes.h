// Finds shardings that split an axis of a mesh: parses meshes from programs and compares them with the compiler's shardings.
//
// Shardy may split an axis into parts, and assign them to different dimensions or to none. For example, 16 elements over the 8
// devices of "x", reshaped to 2 x 8, become 2 x 4 tiles. Inside a program that is an ordinary sharding. But jax describes the
// shardings of arguments and results by whole axes, and rejects others. Newer versions of Shardy therefore remove such parts from
// arguments and results; each dimension keeps the axes before the first part. This version does not.
//
// Invariants:
//  1. The result depends on the arguments alone: all processes of a computation compute the same.
//  2. Meshes come from clients. Malformed meshes are skipped, and so are meshes over other devices than the sharding's.
//  3. The cost of a sharding is its number of devices times the dimensions it splits times the mesh's axes.
// Pure; includes only the standard library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pw::pjrt_cpu {

struct Mesh {
  struct Axis {
    std::string name;  // in its quotes
    int64_t size = 0;
    int64_t stride = 0;  // distance in the mesh between neighbours along this axis
  };
  std::string text;  // mesh<["x"=4, "y"=2]>
  std::vector<Axis> axes;
  std::vector<int64_t> devices;  // in mesh order; empty: device i is at position i
  int64_t size = 1;
};

// Returns the meshes in the text of Shardy's attributes, in order.
std::vector<Mesh> ParseMeshes(std::string_view text);

// The assignment of an array's parts to devices.
struct Tiling {
  std::vector<int64_t> parts;    // of each dimension of the array, then of dimensions of replication, if any
  std::vector<int64_t> devices;  // row by row
  size_t rank = 0;               // of the array
};

// Returns nullopt if whole axes of one of the meshes can express the tiling, or if no mesh has its devices. Otherwise returns the
// text of the replacement sharding, over the first mesh with these devices.
std::optional<std::string> OnWholeAxes(const Tiling& tiling, const std::vector<Mesh>& meshes);

}  // namespace pw::pjrt_cpu
