#include "pathways/lanes/begun_fetches.h"

#include <algorithm>

namespace pw::lanes {
namespace {

// Each takes at most 24 bytes; the rest of the hello takes less than 200.
constexpr size_t kMostListed = 150;

}  // namespace

std::vector<BegunFetch> ListBegun(std::vector<BegunFetch> fetches, ::pathways::v1::LaneHello* hello) {
  std::sort(fetches.begin(), fetches.end(), [](const BegunFetch& a, const BegunFetch& b) { return a.received > b.received; });
  const size_t listed = std::min(fetches.size(), kMostListed);
  for (size_t i = 0; i < listed; ++i) {
    auto& begun = *hello->add_begun();
    begun.set_fetch(fetches[i].name);
    begun.set_received(fetches[i].received);
  }
  fetches.erase(fetches.begin(), fetches.begin() + static_cast<std::ptrdiff_t>(listed));
  return fetches;
}

}  // namespace pw::lanes
