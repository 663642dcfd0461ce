#include "pathways/trace/perfetto.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"

namespace pw::trace {
namespace {

// The process and thread under which an event is drawn. Perfetto shows overlapping spans of one thread as nested. So overlapping
// spans of a track get threads ("lanes") of their own: each span takes the first lane of its track that is free when the span
// begins.
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
  struct Lane {
    int64_t thread;
    absl::Time free;
  };
  std::vector<std::vector<Lane>> lanes(recording.tracks.size());
  std::vector<size_t> order(recording.events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return recording.events[a].begin < recording.events[b].begin; });
  std::vector<Place>& places = layout->places.emplace_back(order.size());
  int64_t next_thread = 1;
  for (size_t i : order) {
    const Event& event = recording.events[i];
    std::vector<Lane>& track = lanes[event.track];
    auto lane = std::find_if(track.begin(), track.end(), [&](const Lane& l) { return l.free <= event.begin; });
    if (lane == track.end()) {
      const std::string& name = recording.tracks[event.track];
      layout->threads.push_back({{process, next_thread}, track.empty() ? name : absl::StrCat(name, " (", track.size() + 1, ")")});
      lane = track.insert(track.end(), {next_thread++, absl::InfinitePast()});
    }
    lane->free = event.begin + event.duration;
    places[i] = {process, lane->thread};
  }
}

class Writer {
 public:
  Writer(absl::Span<const Recording> recordings, absl::Time zero) : recordings_(recordings), zero_(zero) {
    for (size_t p = 0; p < recordings.size(); ++p) LayOut(recordings[p], static_cast<int64_t>(p) + 1, &layout_);
  }

  std::string Write(absl::Span<const std::string> silent_hosts) {
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
    json_.EndArray().EndObject();
    return json_.EndObject().Take();
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

std::string ToPerfettoJson(absl::Span<const Recording> recordings, absl::Span<const std::string> silent_hosts) {
  absl::Time zero = absl::InfiniteFuture();
  for (const Recording& recording : recordings) {
    for (const Event& event : recording.events) zero = std::min(zero, event.begin);
  }
  return Writer(recordings, zero).Write(silent_hosts);
}

}  // namespace pw::trace
