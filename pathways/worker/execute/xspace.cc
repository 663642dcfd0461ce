#include "pathways/worker/execute/xspace.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/trace/lanes.h"
#include "pathways/worker/execute/tracing.h"

namespace pw::worker {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

// Viewers draw planes with this prefix, and lay out their lines themselves.
constexpr char kDevice[] = "/device:CUSTOM:";
// Viewers draw this plane as the threads of the host.
constexpr char kHostThreads[] = "/host:CPU";
// The name that our CPU plugin gives to the plane of its threads.
constexpr char kPluginThreads[] = "/host:pjrt_cpu";

enum Stat : int64_t { kOp = 1, kGang = 2, kBytes = 3 };

// Fills one plane, line by line.
class Plane {
 public:
  Plane(XPlane* plane, int64_t id, std::string name, absl::Time zero) : plane_(plane), zero_(zero) {
    plane_->set_id(id);
    plane_->set_name(std::move(name));
    for (const auto& [stat, what] : {std::pair{kOp, "op"}, {kGang, "gang"}, {kBytes, "bytes"}}) {
      auto& metadata = (*plane_->mutable_stat_metadata())[stat];
      metadata.set_id(stat);
      metadata.set_name(what);
    }
  }

  void Add(const std::string& line, const trace::Event& event) {
    XEvent& out = *Line(line).add_events();
    out.set_metadata_id(NameOf(event.name));
    out.set_offset_ps(Picoseconds(event.begin - zero_));
    out.set_duration_ps(Picoseconds(event.duration));
    if (event.flow != 0) AddStat(kOp, static_cast<int64_t>(event.flow), &out);
    if (event.gang != 0) AddStat(kGang, static_cast<int64_t>(event.gang), &out);
    if (event.bytes >= 0) AddStat(kBytes, event.bytes, &out);
  }

 private:
  static int64_t Picoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration) * 1000; }
  static void AddStat(Stat stat, int64_t value, XEvent* event) {
    auto& out = *event->add_stats();
    out.set_metadata_id(stat);
    out.set_int64_value(value);
  }
  XLine& Line(const std::string& name) {
    const auto [it, is_new] = lines_.try_emplace(name, plane_->lines_size());
    if (!is_new) return *plane_->mutable_lines(it->second);
    XLine& line = *plane_->add_lines();
    line.set_id(plane_->lines_size());
    line.set_name(name);
    return line;
  }
  int64_t NameOf(const std::string& name) {
    const auto [it, is_new] = names_.try_emplace(name, static_cast<int64_t>(names_.size()) + 1);
    if (is_new) {
      auto& metadata = (*plane_->mutable_event_metadata())[it->second];
      metadata.set_id(it->second);
      metadata.set_name(name);
    }
    return it->second;
  }

  XPlane* const plane_;
  const absl::Time zero_;
  std::map<std::string, int> lines_;
  std::map<std::string, int64_t> names_;
};

// Runtimes that do not put their profile into its final form give the wall time at which a line begins, which is far beyond any profile's length.
// The earliest of such lines begins with the profile.
void CountFromStart(XSpace* space) {
  constexpr int64_t kLongestNs = 3'600'000'000'000;
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const XPlane& plane : space->planes()) {
    for (const XLine& line : plane.lines()) {
      if (line.timestamp_ns() > kLongestNs) start = std::min(start, line.timestamp_ns());
    }
  }
  for (XPlane& plane : *space->mutable_planes()) {
    for (XLine& line : *plane.mutable_lines()) {
      if (line.timestamp_ns() > kLongestNs) line.set_timestamp_ns(line.timestamp_ns() - start);
    }
  }
}

}  // namespace

XSpace ToXSpace(const trace::Recording& recording, const XSpaceOptions& options) {
  trace::Recording shown;
  shown.tracks = recording.tracks;
  for (const trace::Event& event : recording.events) {
    if (options.session == 0 || event.session == options.session) shown.events.push_back(event);
  }
  XSpace space;
  if (!options.merged) space.add_hostnames(options.host);
  std::map<std::string, Plane> planes;
  const auto plane_of = [&](const std::string& name) -> Plane& {
    if (auto known = planes.find(name); known != planes.end()) return known->second;
    const int64_t id = space.planes_size() + 1;
    return planes.try_emplace(name, space.add_planes(), id, name, recording.started).first->second;
  };
  const trace::Lanes lanes = trace::LanesOf(shown);
  for (size_t i : lanes.order) {
    const trace::Event& event = shown.events[i];
    const std::string& track = shown.tracks[event.track];
    const bool of_device = IsDeviceTrack(track);
    Plane& plane = plane_of(of_device ? absl::StrCat(kDevice, options.host, " ", track) : absl::StrCat(kDevice, options.host));
    plane.Add(trace::LaneName(of_device ? "computations" : track, lanes.lane[i]), event);
  }
  if (recording.dropped > 0)
    space.add_warnings(absl::StrCat(options.host, ": ", recording.dropped, " events came after the limit and are missing"));
  return space;
}

absl::StatusOr<XSpace> RuntimeXSpace(const std::string& serialized, const XSpaceOptions& options) {
  XSpace space;
  if (!space.ParseFromString(serialized)) return absl::InternalError("the profile of the device runtime is no XSpace");
  CountFromStart(&space);
  space.clear_hostnames();  // of the machine; the host's own XSpace has the host's name
  for (XPlane& plane : *space.mutable_planes()) {
    if (options.merged) {
      plane.set_name(absl::StrCat(plane.name(), " of ", options.host));
    } else if (plane.name() == kPluginThreads) {
      plane.set_name(kHostThreads);
    }
  }
  return space;
}

}  // namespace pw::worker
