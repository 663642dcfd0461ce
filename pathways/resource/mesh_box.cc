#include "pathways/resource/mesh_box.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/str_join.h"

namespace pw::resource {
namespace {

using Point = std::array<int64_t, 3>;
using Chips = std::map<Point, const Candidate*>;
using Box = std::vector<const Candidate*>;

Point PointOf(const Candidate& c) {
  Point point{};
  std::copy(c.coords.begin(), c.coords.end(), point.begin());
  return point;
}

// Returns the box, or nullopt if any of its chips is missing. `axis[i]`: the mesh's axis along which extent i lies.
std::optional<Box> BoxAt(const Chips& chips, const Point& origin, const Point& extent, const std::array<int, 3>& axis) {
  Box box;
  for (int64_t i = 0; i < extent[0]; ++i) {
    for (int64_t j = 0; j < extent[1]; ++j) {
      for (int64_t k = 0; k < extent[2]; ++k) {
        Point at = origin;
        at[axis[0]] += i;
        at[axis[1]] += j;
        at[axis[2]] += k;
        auto chip = chips.find(at);
        if (chip == chips.end()) return std::nullopt;
        box.push_back(chip->second);
      }
    }
  }
  return box;
}

}  // namespace

bool HasMesh(absl::Span<const Candidate* const> devices) {
  return std::all_of(devices.begin(), devices.end(), [&](const Candidate* c) {
    return !c->coords.empty() && c->coords.size() <= 3 && c->coords.size() == devices[0]->coords.size();
  });
}

std::optional<Box> FindBox(absl::Span<const Candidate* const> devices, absl::Span<const int64_t> shape, bool load_counts) {
  Chips chips;
  for (const Candidate* c : devices) {
    const Candidate*& chip = chips[PointOf(*c)];
    if (chip == nullptr || (load_counts && c->load < chip->load)) chip = c;
  }
  Point extent{1, 1, 1};
  std::copy(shape.begin(), shape.end(), extent.begin());
  std::optional<Box> best;
  int64_t best_load = 0;
  std::array<int, 3> axis{0, 1, 2};
  std::set<Point> laid;  // orientations tried so far: equal ones are skipped
  do {
    Point along{};
    for (int i = 0; i < 3; ++i) along[axis[i]] = extent[i];
    if (!laid.insert(along).second) continue;
    for (const auto& [origin, chip] : chips) {
      std::optional<Box> box = BoxAt(chips, origin, extent, axis);
      if (!box.has_value()) continue;
      int64_t load = 0;
      for (const Candidate* c : *box) load += load_counts ? c->load : 0;
      if (best.has_value() && load >= best_load) continue;
      best = std::move(box);
      best_load = load;
      if (load == 0) return best;
    }
  } while (std::next_permutation(axis.begin(), axis.end()));
  return best;
}

std::string ExtentOfMesh(absl::Span<const Candidate* const> devices) {
  Point low = PointOf(*devices[0]), high = low;
  for (const Candidate* c : devices) {
    const Point point = PointOf(*c);
    for (int i = 0; i < 3; ++i) {
      low[i] = std::min(low[i], point[i]);
      high[i] = std::max(high[i], point[i]);
    }
  }
  std::vector<int64_t> extent;
  for (size_t i = 0; i < devices[0]->coords.size(); ++i) extent.push_back(high[i] - low[i] + 1);
  return absl::StrJoin(extent, "x");
}

}  // namespace pw::resource
