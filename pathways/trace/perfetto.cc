#include "pathways/trace/perfetto.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "pathways/base/json_writer.h"
#include "pathways/trace/lanes.h"

namespace pw::trace {
namespace {

// The process and thread under which an event is drawn. Each lane (lanes.h) is a thread.
struct Place {
  int64_t process = 0;
  int64_t thread = 0;
};

struct Layout {
  std::vector<std::vector<Place>> places;  // [recording][event]
  struct Thread {
    Place place;
    std::string name;
  };
  std::vector<Thread> threads;
};

void LayOut(const Recording& recording, int64_t process, Layout* layout) {
  const Lanes lanes = LanesOf(recording);
  std::vector<std::vector<int64_t>> threads(recording.tracks.size());  // by track and lane
  std::vector<Place>& places = layout->places.emplace_back(recording.events.size());
  int64_t next_thread = 1;
  for (size_t i : lanes.order) {
    const uint32_t track = recording.events[i].track;
    if (lanes.lane[i] == threads[track].size()) {
      layout->threads.push_back({{process, next_thread}, LaneName(recording.tracks[track], lanes.lane[i])});
      threads[track].push_back(next_thread++);
    }
    places[i] = {process, threads[track][lanes.lane[i]]};
  }
}

class Writer {
 public:
  Writer(absl::Span<const Recording> recordings, absl::Time zero) : recordings_(recordings), zero_(zero) {
    for (size_t p = 0; p < recordings.size(); ++p) LayOut(recordings[p], static_cast<int64_t>(p) + 1, &layout_);
  }

  // `began`: when the earliest event did, by the wall's clock.
  std::string Write(absl::Span<const std::string> silent_hosts, std::optional<absl::Time> began) {
    json_.BeginObject().Key("displayTimeUnit").String("ms").Key("traceEvents").BeginArray();
    Names();
    uint64_t dropped = 0;
    absl::Duration clock_error = absl::ZeroDuration();
    for (size_t p = 0; p < recordings_.size(); ++p) {
      dropped += recordings_[p].dropped;
      clock_error = std::max(clock_error, recordings_[p].clock_error);
      for (size_t i = 0; i < recordings_[p].events.size(); ++i) Whole(recordings_[p].events[i], layout_.places[p][i]);
    }
    Flows();
    json_.EndArray().Key("otherData").BeginObject().Key("events_not_recorded").Int(static_cast<int64_t>(dropped));
    json_.Key("clock_error_us").Number(absl::ToDoubleMicroseconds(clock_error)).Key("silent_hosts").BeginArray();
    for (const std::string& host : silent_hosts) json_.String(host);
    json_.EndArray();
    if (began.has_value()) json_.Key("began_unix_us").Int(absl::ToUnixMicros(*began));
    return json_.EndObject().EndObject().Take();
  }

 private:
  // Begins an event; the caller adds fields and ends it.
  void Begin(std::string_view phase, const Place& place) {
    json_.BeginObject().Key("ph").String(phase).Key("pid").Int(place.process).Key("tid").Int(place.thread);
  }
  void Time(std::string_view key, absl::Duration time) { json_.Key(key).Fixed(absl::ToInt64Nanoseconds(time)); }

  void Names() {
    for (size_t p = 0; p < recordings_.size(); ++p)
      Name("process_name", {static_cast<int64_t>(p) + 1, 0}, recordings_[p].process);
    for (const Layout::Thread& thread : layout_.threads) Name("thread_name", thread.place, thread.name);
  }
  void Name(std::string_view what, const Place& place, std::string_view name) {
    Begin("M", place);
    json_.Key("name").String(what).Key("args").BeginObject().Key("name").String(name).EndObject().EndObject();
  }

  void Whole(const Event& event, const Place& place) {
    const bool instant = event.duration == absl::ZeroDuration();
    Begin(instant ? "i" : "X", place);
    json_.Key("cat").String(ToString(event.kind)).Key("name").String(event.name);
    Time("ts", event.begin - zero_);
    if (instant) {
      json_.Key("s").String("t");
    } else {
      Time("dur", event.duration);
    }
    const bool plain = event.flow == 0 && event.bytes < 0 && event.gang == 0 && event.needs.empty() && event.makes.empty();
    if (!plain) Arguments(event);
    json_.EndObject();
  }
  void Arguments(const Event& event) {
    json_.Key("args").BeginObject();
    if (event.flow != 0) json_.Key("op").Int(static_cast<int64_t>(event.flow));
    if (event.bytes >= 0) json_.Key("bytes").Int(event.bytes);
    if (event.gang != 0) json_.Key("gang").Int(static_cast<int64_t>(event.gang));
    Arrays("needs", event.needs);
    Arrays("makes", event.makes);
    json_.EndObject();
  }
  void Arrays(std::string_view key, const std::vector<uint64_t>& arrays) {
    if (arrays.empty()) return;
    json_.Key(key).BeginArray();
    for (uint64_t array : arrays) json_.Int(static_cast<int64_t>(array));
    json_.EndArray();
  }

  // Writes arrows from each event of a flow to the next in time. A flow of one event has none.
  void Flows() {
    struct Stop {
      absl::Time at;
      Place place;
    };
    std::map<uint64_t, std::vector<Stop>> flows;
    for (size_t p = 0; p < recordings_.size(); ++p) {
      for (size_t i = 0; i < recordings_[p].events.size(); ++i) {
        const Event& event = recordings_[p].events[i];
        if (event.flow != 0) flows[event.flow].push_back({event.begin, layout_.places[p][i]});
      }
    }
    for (auto& [flow, stops] : flows) {
      if (stops.size() < 2) continue;
      std::stable_sort(stops.begin(), stops.end(), [](const Stop& a, const Stop& b) { return a.at < b.at; });
      for (size_t i = 0; i < stops.size(); ++i) {
        Begin(i == 0 ? "s" : i + 1 == stops.size() ? "f" : "t", stops[i].place);
        json_.Key("id").Int(static_cast<int64_t>(flow)).Key("cat").String("op").Key("name").String("op").Key("bp").String("e");
        Time("ts", stops[i].at - zero_);
        json_.EndObject();
      }
    }
  }

  const absl::Span<const Recording> recordings_;
  const absl::Time zero_;
  Layout layout_;
  JsonWriter json_;
};

}  // namespace

std::string ToPerfettoJson(absl::Span<const Recording> recordings, absl::Span<const std::string> silent_hosts,
                           std::optional<absl::Duration> to_wall) {
  absl::Time zero = absl::InfiniteFuture();
  for (const Recording& recording : recordings) {
    for (const Event& event : recording.events) zero = std::min(zero, event.begin);
  }
  std::optional<absl::Time> began;
  if (to_wall.has_value() && zero != absl::InfiniteFuture()) began = zero + *to_wall;
  return Writer(recordings, zero).Write(silent_hosts, began);
}

}  // namespace pw::trace
