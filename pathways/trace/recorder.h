// Recorder: what one process did, and when, for people who ask where the time goes.
//
// Off, a call costs one branch: callers ask on() before they make up a name. On, an event is a few words in a vector, up to a limit;
// what comes after that is counted, not kept, so that a forgotten trace cannot eat the machine.
//
// Times are the process's steady clock. Whoever gathers the recordings of several processes brings them on one clock (Recording::Shift).
//
// Words. A track is a line of the picture ("device 3"). A span has a beginning and an end on a track; spans of one track may overlap.
// Events that carry the same flow belong to one operation, whatever process they happened in: the picture joins them with arrows.
//
// Strand-confined: it belongs to the strand whose state it watches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"

namespace pw::trace {

// What an event is about. The names are what people filter by (ToString).
enum class Kind : uint8_t {
  kRequest = 0,   // a client asked for it
  kPrepare = 1,   // a host got the command and made ready
  kGrant = 2,     // the scheduler let it go
  kRun = 3,       // the devices ran it
  kTransfer = 4,  // bytes moved
  kEnd = 5,       // the scheduler was told that a computation is over ("done", "failed"); "under way": when the recording ended
  kMax = kEnd,
};
std::string_view ToString(Kind kind);

struct Event {
  Kind kind = Kind::kRequest;
  uint32_t track = 0;  // index into Recording::tracks
  std::string name;
  absl::Time begin;
  absl::Duration duration;           // zero: an instant
  uint64_t flow = 0;                 // 0: none
  int64_t bytes = -1;                // negative: not about bytes
  uint64_t gang = 0;                 // the computation, as the scheduler numbers it; 0: none, or not known
  std::vector<uint64_t> needs = {};  // arrays that it reads, and makes
  std::vector<uint64_t> makes = {};
};

// What connects an event with others; the fields of Event.
struct Links {
  uint64_t flow = 0;
  int64_t bytes = -1;
  uint64_t gang = 0;
  std::vector<uint64_t> needs = {};
  std::vector<uint64_t> makes = {};
};

struct Recording {
  std::string process;  // "controller", "host h0 of island i0"
  std::vector<std::string> tracks;
  std::vector<Event> events;                          // in the order in which they ended
  uint64_t dropped = 0;                               // came after the limit
  absl::Duration clock_error = absl::ZeroDuration();  // how far its times may be off from the others', at most

  void Shift(absl::Duration by);
};

class Recorder {
 public:
  static constexpr size_t kDefaultLimit = 1 << 20;

  explicit Recorder(Clock* clock) : clock_(clock) {}

  bool on() const { return on_; }
  absl::Time Now() const { return clock_->Now(); }

  // Begins anew; what has not been taken is dropped.
  void Start(size_t limit = kDefaultLimit);
  Recording Stop();

  // Nothing happens while the recorder is off. A span that began before Start is cut to what lies after it.
  void Span(Kind kind, std::string_view track, std::string name, absl::Time begin, Links links = {});
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
