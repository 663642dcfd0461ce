// Repeats: sends commands to hosts again, as a second controller does that carries out requests which the first one may have carried out
// (worker.proto, Repeats). A repeated command goes at the end of a frame that goes anyhow. So it comes after the first one, at any time before
// its request is settled. Grants and releases have no names; they are repeated at any time.
//
// Runs of programs are started again as other runs of the same graph, with the same argument: a second controller numbers runs by itself.
//
// It sees only frames: it forgets commands when the host is told that their requests are settled, and all when it joins as a new host. It counts
// the commands that come for the first time after that: there must be none, unless a broken connection repeats frames.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/sim/process.h"
#include "pathways/sim/world.h"
#include "pathways/v1/worker.pb.h"

namespace pw::sim {

class Repeats {
 public:
  // One frame in `one_in` gets a repeated command; 0: none. Commands of sessions that are not open are not repeated: they have ended.
  Repeats(World* world, uint64_t one_in, std::function<bool(SessionId)> is_open)
      : world_(world), one_in_(one_in), is_open_(std::move(is_open)) {}

  // Takes note of a frame from a controller to a host, and may add to it.
  void OnFrame(const Process& controller, const Process& host, std::string* header, std::vector<Bytes>* payload);
  uint64_t repeated() const { return repeated_; }
  // Returns the number of commands to hosts that had been told that the command's request is settled.
  uint64_t after_settled() const { return after_settled_; }

 private:
  struct Sent {
    SessionId session;                     // 0: of no session
    std::optional<uint64_t> request = {};  // it is repeated until this is settled; none: at any time
    pathways::v1::Command command;
    Bytes payload = {};
  };
  struct Link {
    std::deque<Sent> sent = {};                               // the latest ones
    std::set<uint64_t> programs = {};                         // graphs
    std::map<SessionId, pathways::v1::Settled> settled = {};  // the latest
    uint64_t next_run = uint64_t{1} << 40;                    // of repeated runs, beyond those of the controller
  };

  void Note(Link& link, const pathways::v1::Command& command, Bytes payload);
  void NoteRuns(Link& link, const pathways::v1::DataflowFrame& dataflow);
  void Add(Link& link, uint64_t name, pathways::v1::Command command, Bytes payload = {});
  static void Forget(Link& link, const pathways::v1::Settled& settled);
  void Repeat(Link& link, pathways::v1::ToWorker* frame, std::vector<Bytes>* payload);

  World* const world_;
  const uint64_t one_in_;
  const std::function<bool(SessionId)> is_open_;
  std::map<std::pair<std::string, std::string>, Link> links_;  // by the names of both processes
  uint64_t repeated_ = 0;
  uint64_t after_settled_ = 0;
};

}  // namespace pw::sim
