#include "plugins/pjrt_cpu/programs/whole_axes.h"

#include <algorithm>
#include <charconv>

namespace pw::pjrt_cpu {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 24;  // small enough that two of them can be multiplied

bool Skip(std::string_view& text, std::string_view token) {
  if (text.substr(0, token.size()) != token) return false;
  text.remove_prefix(token.size());
  return true;
}

std::optional<int64_t> Number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMostDevices) return std::nullopt;
  text.remove_prefix(end - text.data());
  return value;
}

std::optional<std::string> Quoted(std::string_view& text) {
  if (text.empty() || text[0] != '"') return std::nullopt;
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size()) return std::nullopt;
  std::string name(text.substr(0, end + 1));
  text.remove_prefix(end + 1);
  return name;
}

bool ParseAxes(std::string_view& text, Mesh& mesh) {
  while (!Skip(text, "]")) {
    Skip(text, ", ");
    const std::optional<std::string> name = Quoted(text);
    if (!name.has_value() || !Skip(text, "=")) return false;
    const std::optional<int64_t> size = Number(text);
    if (!size.has_value() || *size == 0 || mesh.size * *size > kMostDevices) return false;
    mesh.axes.push_back({*name, *size});
    mesh.size *= *size;
  }
  int64_t stride = mesh.size;
  for (Mesh::Axis& axis : mesh.axes) axis.stride = stride /= axis.size;
  return true;
}

bool ParseDevices(std::string_view& text, Mesh& mesh) {
  while (!Skip(text, "]")) {
    Skip(text, ", ");
    const std::optional<int64_t> device = Number(text);
    if (!device.has_value() || *device >= mesh.size) return false;
    mesh.devices.push_back(*device);
  }
  return mesh.devices.size() == static_cast<size_t>(mesh.size);
}

// Parses the mesh at the beginning of `text` and removes it.
std::optional<Mesh> ParseMesh(std::string_view& text) {
  const char* begin = text.data();
  Mesh mesh;
  if (!Skip(text, "mesh<[") || !ParseAxes(text, mesh)) return std::nullopt;
  if (Skip(text, ", device_ids=[") && !ParseDevices(text, mesh)) return std::nullopt;
  if (!Skip(text, ">")) return std::nullopt;
  mesh.text.assign(begin, text.data());
  return mesh;
}

// Returns the tile, counted row by row, of the device at each position of the mesh.
std::vector<int64_t> TilesByPlace(const Tiling& tiling, const Mesh& mesh) {
  std::vector<int64_t> tile_of(mesh.size), tiles(mesh.size);
  for (int64_t i = 0; i < mesh.size; ++i) tile_of[tiling.devices[i]] = i;
  for (int64_t i = 0; i < mesh.size; ++i) tiles[i] = tile_of[mesh.devices.empty() ? i : mesh.devices[i]];
  return tiles;
}

// Returns the axis whose coordinate equals the major index of the place's part, `part[place]`, at every place; null if there is none.
const Mesh::Axis* MajorAxis(const Mesh& mesh, const std::vector<int64_t>& part, int64_t parts) {
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.size == 1 || parts % axis.size != 0) continue;
    const int64_t run = parts / axis.size;
    int64_t place = 0;
    while (place < mesh.size && part[place] / run == place / axis.stride % axis.size) ++place;
    if (place == mesh.size) return &axis;
  }
  return nullptr;
}

struct Naming {
  std::string text;
  bool whole = true;
};

Naming Name(const Tiling& tiling, const Mesh& mesh) {
  Naming naming{"#sdy.sharding<" + mesh.text + ", ["};
  const std::vector<int64_t> tiles = TilesByPlace(tiling, mesh);
  std::vector<int64_t> part(tiles.size());
  int64_t stride = mesh.size;
  for (size_t d = 0; d < tiling.rank; ++d) {
    int64_t parts = tiling.parts[d];
    stride /= parts;
    for (size_t i = 0; i < tiles.size(); ++i) part[i] = tiles[i] / stride % parts;
    naming.text += d == 0 ? "{" : ", {";
    const char* separator = "";
    while (parts > 1) {
      const Mesh::Axis* axis = MajorAxis(mesh, part, parts);
      if (axis == nullptr) break;
      naming.text += separator + axis->name;
      separator = ", ";
      parts /= axis->size;
      for (int64_t& p : part) p %= parts;
    }
    naming.whole &= parts == 1;
    naming.text += "}";
  }
  naming.text += "]>";
  return naming;
}

}  // namespace

std::vector<Mesh> ParseMeshes(std::string_view text) {
  constexpr std::string_view kPrefix = "#sdy.";
  std::vector<Mesh> meshes;
  for (size_t at = text.find(kPrefix); at != text.npos; at = text.find(kPrefix)) {
    text.remove_prefix(at + kPrefix.size());
    if (std::optional<Mesh> mesh = ParseMesh(text)) meshes.push_back(*std::move(mesh));
  }
  return meshes;
}

std::optional<std::string> OnWholeAxes(const Tiling& tiling, const std::vector<Mesh>& meshes) {
  std::optional<std::string> replacement;
  for (const Mesh& mesh : meshes) {
    if (static_cast<size_t>(mesh.size) != tiling.devices.size()) continue;
    Naming naming = Name(tiling, mesh);
    if (naming.whole) return std::nullopt;
    if (!replacement.has_value()) replacement = std::move(naming.text);
  }
  return replacement;
}

}  // namespace pw::pjrt_cpu
