// Meshes as programs write them, and shardings as compilers do: which of them split an axis of the mesh.
//
// Shardy may give one part of an axis to one dimension and another part, or nothing, to another: 16 elements over the 8 devices of "x",
// reshaped to 2 x 8, end up as 2 x 4 tiles. Inside a program that is as good as any sharding. jax, however, names the shardings of
// arguments and results by whole axes, and refuses those it has no name for. Newer versions of Shardy therefore take such parts off
// the arguments and results of a program, each dimension keeping the axes that come before the first part. The one here does not.
//
// Invariants:
//  1. The answer depends on the arguments alone: all processes of a computation come to the same.
//  2. Meshes come from clients. What is not a mesh is skipped, and one that is not over the devices of a sharding is not asked.
//  3. A sharding costs the number of its devices, times that of the dimensions it splits, times that of the mesh's axes.
// Pure; sees the standard library alone.
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
    int64_t stride = 0;  // between neighbours along this axis, in places of the mesh
  };
  std::string text;  // mesh<["x"=4, "y"=2]>
  std::vector<Axis> axes;
  std::vector<int64_t> devices;  // in the order of places; empty: device i is in place i
  int64_t size = 1;
};

// The meshes in the text of Shardy's attributes, in order.
std::vector<Mesh> ParseMeshes(std::string_view text);

// How devices hold the parts of an array.
struct Tiling {
  std::vector<int64_t> parts;    // of each dimension of the array; then perhaps of dimensions along which all have the same
  std::vector<int64_t> devices;  // row by row
  size_t rank = 0;               // of the array
};

// None if the tiling has a name in whole axes of one of the meshes, or if none of them has its devices. Otherwise the text of the
// sharding by which it is replaced, over the first mesh that has them.
std::optional<std::string> OnWholeAxes(const Tiling& tiling, const std::vector<Mesh>& meshes);

}  // namespace pw::pjrt_cpu
