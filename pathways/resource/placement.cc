#include "pathways/resource/placement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/resource/mesh_box.h"

namespace pw::resource {
namespace {

constexpr int64_t kMaxCount = 1 << 16;

using Group = std::vector<const Candidate*>;  // ascending by id

bool PlatformFits(const std::string& wanted, const std::string& platform) {
  if (wanted.empty() || wanted == platform || platform == "cpu") return true;
  return wanted == "gpu" && (platform == "cuda" || platform == "rocm");
}

bool Fits(const Candidate& c, const Question& q) {
  const SliceRequest& r = q.request;
  if (c.drained || !q.may_use(c.island) || !PlatformFits(r.platform, c.platform)) return false;
  if (!r.kind.empty() && r.kind != c.kind) return false;
  if (!r.island.empty() && r.island != c.island_name) return false;
  if (q.beside.has_value() && *q.beside != c.island) return false;
  const bool now = q.against == Against::kNow;
  if (c.memory_limit > 0 && r.memory_per_device > c.memory_limit - (now ? c.memory_reserved : 0)) return false;
  return !now || (c.exclusive == 0 && !(r.exclusive && c.load > 0));
}

int LoadOf(const Candidate& c, Against against) { return against == Against::kNow ? c.load : 0; }

std::map<std::pair<IslandId, std::string>, Group> GroupsOf(absl::Span<const Candidate> candidates, const Question& q) {
  std::map<std::pair<IslandId, std::string>, Group> groups;
  for (const Candidate& c : candidates) {
    if (Fits(c, q)) groups[{c.island, c.kind}].push_back(&c);
  }
  return groups;
}

// Moves `wanted` devices of `group`, which are equally good, to `taken`, from few or many hosts.
void TakeFrom(const Group& group, size_t wanted, HostChoice choice, Group* taken) {
  std::map<HostId, Group> by_host;
  std::map<HostId, size_t> used;
  for (const Candidate* c : *taken) ++used[c->host];
  for (const Candidate* c : group) by_host[c->host].push_back(c);
  while (wanted > 0) {
    auto best = by_host.end();
    auto score = [&](HostId host, const Group& left) {
      const bool exact = left.size() >= wanted;  // the smallest host that has enough devices, else the largest
      return choice == HostChoice::kSpread ? std::tuple<int64_t, int64_t, int64_t>(static_cast<int64_t>(used[host]), 0, 0)
                                           : std::tuple<int64_t, int64_t, int64_t>(
                                                 used[host] > 0 ? 0 : 1, exact ? 0 : 1,
                                                 exact ? static_cast<int64_t>(left.size()) : -static_cast<int64_t>(left.size()));
    };
    for (auto it = by_host.begin(); it != by_host.end(); ++it) {
      if (best == by_host.end() || score(it->first, it->second) < score(best->first, best->second)) best = it;
    }
    const size_t take = choice == HostChoice::kSpread ? 1 : std::min(wanted, best->second.size());
    taken->insert(taken->end(), best->second.begin(), best->second.begin() + take);
    used[best->first] += take;
    best->second.erase(best->second.begin(), best->second.begin() + take);
    if (best->second.empty()) by_host.erase(best);
    wanted -= take;
  }
}

Group TakeByLoad(const Group& group, size_t wanted, Against against, HostChoice choice) {
  std::map<int, Group> levels;
  for (const Candidate* c : group) levels[LoadOf(*c, against)].push_back(c);
  Group taken;
  for (const auto& [load, level] : levels) {
    const size_t take = std::min(wanted - taken.size(), level.size());
    TakeFrom(level, take, choice, &taken);
  }
  return taken;
}

// Takes from hosts with the most fitting devices first; among equal hosts, from the least loaded.
Group TakePacked(const Group& group, size_t wanted, Against against) {
  std::map<HostId, Group> by_host;
  for (const Candidate* c : group) by_host[c->host].push_back(c);
  std::vector<Group> hosts;
  for (auto& [host, devices] : by_host) {
    std::stable_sort(devices.begin(), devices.end(), [&](auto* a, auto* b) { return LoadOf(*a, against) < LoadOf(*b, against); });
    hosts.push_back(std::move(devices));
  }
  auto load_of = [&](const Group& devices, size_t n) {
    int64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += LoadOf(*devices[i], against);
    return sum;
  };
  Group taken;
  while (taken.size() < wanted) {
    const size_t left = wanted - taken.size();
    auto better = [&](const Group& a, const Group& b) {
      const size_t n = std::min(left, a.size()), m = std::min(left, b.size());
      return n != m ? n > m : load_of(a, n) < load_of(b, m);
    };
    auto best = std::min_element(hosts.begin(), hosts.end(), better);
    const size_t take = std::min(left, best->size());
    taken.insert(taken.end(), best->begin(), best->begin() + take);
    hosts.erase(best);
  }
  return taken;
}

std::optional<Group> TakeFromGroup(const Group& group, const Question& q) {
  const size_t wanted = static_cast<size_t>(q.request.count);
  if (group.size() < wanted) return std::nullopt;
  if (!q.request.shape.empty() && HasMesh(group)) return FindBox(group, q.request.shape, q.against == Against::kNow);
  Group taken = q.request.hosts == HostChoice::kPack ? TakePacked(group, wanted, q.against)
                                                     : TakeByLoad(group, wanted, q.against, q.request.hosts);
  std::sort(taken.begin(), taken.end(), [](auto* a, auto* b) { return a->id < b->id; });
  return taken;
}

// Less is better: load, then hosts (fewer, or more).
std::pair<int64_t, int64_t> Cost(const Group& taken, const Question& q) {
  int64_t load = 0;
  std::set<HostId> hosts;
  for (const Candidate* c : taken) {
    load += LoadOf(*c, q.against);
    hosts.insert(c->host);
  }
  const int64_t n = static_cast<int64_t>(hosts.size());
  if (q.request.hosts == HostChoice::kPack) return {n, load};
  return {load, q.request.hosts == HostChoice::kSpread ? -n : n};
}

bool AnyIsland(IslandId) { return true; }

}  // namespace

std::string Malformed(const SliceRequest& r) {
  if (r.count < 1) return absl::StrCat("a slice has at least one device, not ", r.count);
  if (r.count > kMaxCount) return absl::StrCat("a slice has at most ", kMaxCount, " devices, not ", r.count);
  if (r.memory_per_device < 0) return "the memory of a device cannot be negative";
  if (!r.platform.empty() && r.platform != "tpu" && r.platform != "gpu") {
    return absl::StrCat("devices are asked for as \"tpu\" or \"gpu\", not \"", r.platform, "\"");
  }
  if (r.shape.empty()) return "";
  if (r.shape.size() > 3) return absl::StrCat("a mesh has at most 3 dimensions, not ", r.shape.size());
  int64_t product = 1;
  for (int64_t extent : r.shape) {
    if (extent < 1 || extent > kMaxCount) return absl::StrCat("an extent of ", extent, " in a mesh shape");
    product *= extent;
  }
  if (product != r.count) return absl::StrCat("a mesh of ", product, " devices cannot have ", r.count);
  return "";
}

std::optional<std::vector<DeviceId>> Place(absl::Span<const Candidate> candidates, const Question& q) {
  std::optional<Group> best;
  for (const auto& [name, group] : GroupsOf(candidates, q)) {
    std::optional<Group> taken = TakeFromGroup(group, q);
    if (taken.has_value() && (!best.has_value() || Cost(*taken, q) < Cost(*best, q))) best = std::move(taken);
  }
  if (!best.has_value()) return std::nullopt;
  std::vector<DeviceId> devices;
  for (const Candidate* c : *best) devices.push_back(c->id);
  return devices;
}

std::set<IslandId> FittingIslands(absl::Span<const Candidate> candidates, const SliceRequest& request,
                                  std::optional<IslandId> beside) {
  const Question q{request, Against::kEmpty, beside, AnyIsland};
  std::set<IslandId> islands;
  for (const auto& [name, group] : GroupsOf(candidates, q)) {
    if (!islands.contains(name.first) && TakeFromGroup(group, q).has_value()) islands.insert(name.first);
  }
  return islands;
}

namespace {

std::string WhatIsThere(absl::Span<const Candidate> candidates) {
  std::map<std::tuple<std::string, std::string, int64_t>, int> groups;
  for (const Candidate& c : candidates) {
    if (!c.drained) ++groups[{c.island_name, c.kind, c.memory_limit}];
  }
  if (groups.empty()) return "the cluster has no device that takes slices now";
  std::vector<std::string> parts;
  for (const auto& [group, n] : groups) {
    const auto& [island, kind, memory] = group;
    parts.push_back(absl::StrCat(n, " of kind ", kind, memory > 0 ? absl::StrCat(" (", memory, " bytes each)") : "",
                                 " in island '", island, "'"));
  }
  if (parts.size() > 8) parts.resize(8), parts.push_back("and others");
  return absl::StrCat("the cluster has ", absl::StrJoin(parts, ", "));
}

}  // namespace

std::string NearestFit(absl::Span<const Candidate> candidates, const SliceRequest& request, std::optional<IslandId> beside) {
  const Question q{request, Against::kEmpty, beside, AnyIsland};
  const Group* largest = nullptr;
  const auto groups = GroupsOf(candidates, q);
  for (const auto& [name, group] : groups) {
    if (largest == nullptr || group.size() > largest->size()) largest = &group;
  }
  if (largest == nullptr) {
    return absl::StrCat("no device satisfies the constraints on its own: ", WhatIsThere(candidates),
                        ". Relax the kind, island or memory");
  }
  const std::string where = absl::StrCat(" of kind ", largest->front()->kind, " in island '", largest->front()->island_name, "'");
  if (static_cast<int64_t>(largest->size()) >= request.count) {
    return absl::StrCat("no mesh of shape (", absl::StrJoin(request.shape, ", "), ") is contiguous there: the nearest fit is ",
                        request.count, " devices", where, " without a shape, or a mesh within ", ExtentOfMesh(*largest));
  }
  return absl::StrCat("a slice lies in one island, on devices of one kind; the nearest fit is ", largest->size(),
                      largest->size() == 1 ? " device" : " devices", where, ". For more, take several slices");
}

}  // namespace pw::resource
