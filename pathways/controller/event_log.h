// EventLog: the last things that happened to the cluster and that concern its operators: hosts, clients, computations that hang. `pathways status`
// shows them; each is a line of the controller's log too. Strand-confined.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "absl/time/time.h"

namespace pw::controller {

struct ClusterEvent {
  absl::Time when;
  std::string kind;  // "host joined", "host lost", "client connected", "client left", "hang", "hang ended"
  std::string text;
};

class EventLog {
 public:
  static constexpr size_t kKept = 100;

  void Add(absl::Time now, std::string kind, std::string text) {
    if (events_.size() == kKept) events_.pop_front();
    events_.push_back({now, std::move(kind), std::move(text)});
  }
  const std::deque<ClusterEvent>& events() const { return events_; }  // the oldest first

 private:
  std::deque<ClusterEvent> events_;
};

}  // namespace pw::controller
