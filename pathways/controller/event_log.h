// EventLog: the last things that happened to the cluster and that concern its operators: hosts, clients, computations that hang. `pathways status`
// shows them; each is a line of the controller's log too. Strand-confined.
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
  std::string
      kind;  // "host joined", "host lost", "client connected", "client left", "client away", "client back", "hang", "hang ended"
  std::string text;
  SessionId client = {};  // whom it concerns; none: everybody
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
