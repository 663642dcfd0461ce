// What a cluster says of virtual slices, suspended clients, drained hosts and traces. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/resource/placement.h"

namespace pw::session {

// A virtual slice of a client, as it is at one moment.
struct SliceState {
  enum class What { kPlaced, kWaiting, kRefused };
  SliceId slice;
  What what = What::kWaiting;
  // Of a placed one.
  std::vector<DeviceId> devices;   // virtual: what the client uses
  std::vector<DeviceId> physical;  // for each of them
  std::vector<std::string> hosts;  // by name, for each of them
  std::string island;
  uint64_t epoch = 0;  // counts its mappings to physical devices
  // Of one that waits: its place in the queue (1 is the next), and for what. Of one that was refused: why, and the nearest fit.
  int position = 0;
  std::string text;
};

// What was saved of a client, or brought back.
struct SuspendReport {
  int64_t arrays = 0;
  int64_t bytes = 0;
};

// What became of a host's slices.
struct DrainReport {
  std::string host;
  std::vector<SliceId> moved;
  std::vector<std::pair<SliceId, std::string>> stuck;  // and why
};

struct ClusterTrace {
  std::string perfetto_json;
  int64_t events = 0;
  int64_t events_not_recorded = 0;
  std::vector<std::string> silent_hosts;  // did not answer in time, and are not in the picture
};

}  // namespace pw::session
