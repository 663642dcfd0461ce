// Reports of a cluster about runs, virtual slices, suspended clients, drained hosts and traces. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/resource/placement.h"

namespace pw::session {

struct RunResult {
  std::map<std::string, double> device_microseconds;  // by platform name
};

struct CostAnalysis {
  std::map<std::string, double> numbers;
};

// The state of a client's virtual slice at one moment.
struct SliceState {
  enum class What { kPlaced, kWaiting, kRefused };
  SliceId slice;
  What what = What::kWaiting;
  // If placed:
  std::vector<DeviceId> devices;   // virtual ids, as the client uses them
  std::vector<DeviceId> physical;  // the physical device of each
  std::vector<std::string> hosts;  // the host name of each
  std::string island;
  uint64_t epoch = 0;  // counts its mappings to physical devices
  // If waiting: its place in the queue (1 is next), and in `text` the resource it waits for. If refused: in `text` the reason and the
  // nearest fit.
  int position = 0;
  std::string text;
};

// Size of the data saved when a client was suspended, or restored when it was resumed.
struct SuspendReport {
  int64_t arrays = 0;
  int64_t bytes = 0;
};

// The result of draining a host: its slices, moved or not.
struct DrainReport {
  std::string host;
  std::vector<SliceId> moved;
  std::vector<std::pair<SliceId, std::string>> stuck;  // slices that could not move, with the reason
};

struct ClusterTrace {
  std::string perfetto_json;
  int64_t events = 0;
  int64_t events_not_recorded = 0;
  std::vector<std::string> silent_hosts;  // did not answer in time; missing from the trace
};

}  // namespace pw::session
