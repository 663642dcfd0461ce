// EventLog: the last events that concern operators: hosts and clients that come and go, computations that hang. `pathways status`
// shows them. Strand-confined.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "pathways/base/ids.h"

namespace pw::controller {

struct ClusterEvent {
  absl::Time when;
  // "host joined", "host away", "host back", "host lost", "client connected", "client away", "client back", "client left",
  // "hang", "hang ended"
  std::string kind;
  std::string text;
  SessionId client = {};  // the client that it concerns; none: all
};

class EventLog {
 public:
  static constexpr size_t kKept = 100;

  void Add(ClusterEvent event) {
    if (events_.size() == kKept) events_.pop_front();
    events_.push_back(std::move(event));
  }
  const std::deque<ClusterEvent>& events() const { return events_; }  // the oldest first

 private:
  std::deque<ClusterEvent> events_;
};

}  // namespace pw::controller
