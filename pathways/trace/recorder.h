// Recorder: records the activity of one process with its times, for users who analyze where time was spent.
//
// While it is off, a call costs one branch: callers check on() before they build a name. While it is on, an event is a few words in a
// vector, up to a limit. Later events are counted, not kept, so that a forgotten trace cannot exhaust memory.
//
// Times are the process's steady clock. The collector of several recordings moves them to one clock (Recording::Shift).
//
// Terms: a track is a line of the picture ("device 3"). A span has a beginning and an end on a track; spans of one track may overlap.
// Events with the same flow belong to one operation, even in different processes; the picture joins them with arrows.
//
// Strand-confined: used only on the strand whose state it records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"

namespace pw::trace {

// The kind of an event. Users filter by its name (ToString).
enum class Kind : uint8_t {
  kRequest = 0,   // a client requested the operation
  kPrepare = 1,   // a host received the command and prepared it
  kGrant = 2,     // the scheduler granted it
  kRun = 3,       // the devices executed it
  kTransfer = 4,  // bytes moved
  kEnd = 5,       // a computation ended ("done", "failed"), or the recording did ("under way")
  kHost = 6,      // a Python function ran: on the host, or in the client's process
  kMax = kHost,
};
std::string_view ToString(Kind kind);

struct Event {
  Kind kind = Kind::kRequest;
  uint32_t track = 0;  // index into Recording::tracks
  std::string name;
  absl::Time begin;
  absl::Duration duration;           // zero: an instant
  uint64_t flow = 0;                 // 0: none
  int64_t bytes = -1;                // negative: the event moves no bytes
  uint64_t gang = 0;                 // the scheduler's number of the computation; 0: none or unknown
  std::vector<uint64_t> needs = {};  // ids of the arrays that it reads; `makes`: of those that it makes
  std::vector<uint64_t> makes = {};
  uint64_t session = 0;  // whose operation it is; 0: of no session, or unknown
};

// The fields of Event that connect it with other events.
struct Links {
  uint64_t flow = 0;
  int64_t bytes = -1;
  uint64_t gang = 0;
  std::vector<uint64_t> needs = {};
  std::vector<uint64_t> makes = {};
  uint64_t session = 0;
};

struct Recording {
  std::string process;  // "controller", "host h0 of island i0"
  std::vector<std::string> tracks;
  std::vector<Event> events;                          // in the order in which they were recorded
  uint64_t dropped = 0;                               // number of events beyond the limit
  absl::Duration clock_error = absl::ZeroDuration();  // largest error of its times against other recordings
  absl::Time started = absl::InfinitePast();          // no event begins earlier; not known of recordings of other processes

  void Shift(absl::Duration by);
};

class Recorder {
 public:
  static constexpr size_t kDefaultLimit = 1 << 20;

  explicit Recorder(Clock* clock) : clock_(clock) {}

  bool on() const { return on_; }
  absl::Time Now() const { return clock_->Now(); }

  // Starts a new recording and drops any earlier one.
  void Start(size_t limit = kDefaultLimit);
  Recording Stop();

  // Record a span that ends now or that ended at `end`, or an instant. They do nothing while the recorder is off. A span that
  // began before Start is cut at Start; one that also ended before becomes an instant at Start.
  void Span(Kind kind, std::string_view track, std::string name, absl::Time begin, Links links = {});
  void Span(Kind kind, std::string_view track, std::string name, absl::Time begin, absl::Time end, Links links = {});
  void Instant(Kind kind, std::string_view track, std::string name, Links links = {});

 private:
  void Add(Event event, std::string_view track);
  uint32_t Track(std::string_view name);

  Clock* const clock_;
  bool on_ = false;
  size_t limit_ = 0;
  absl::Time started_;
  Recording recording_;
  absl::flat_hash_map<std::string, uint32_t> tracks_;
};

}  // namespace pw::trace
