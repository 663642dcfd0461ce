// Outbox: batches the controller's commands to hosts, so that a host gets one frame for all commands of one turn of the controller's
// strand.
//
// Planners add commands; the strand's idle hook flushes. Releases are collected separately, and go as one command at the end of their
// batch. This is safe, as no later command of the batch can name a released array. Releases that came before any command of the
// batch go first, because they make room. A batch that grows large is closed early, so that a busy turn neither delays a host nor
// exceeds the transport's limits. Frames keep the order of the commands.
//
// A run of a program of many nodes is normally sent whole. With sequential dispatch it is sent node by node. Commands that name
// an array of such a run then wait until all of the run has been sent (array_order.h). No other command waits.
//
// Pure data, strand-confined. Commands for unknown hosts are dropped: the loss of a host fails its pending operations elsewhere.
//
// Invariants:
//   OB-1  frames of one host carry its commands, and their payloads, in the order added. Commands that wait are added when their
//         wait ends
//   OB-2  a command is counted exactly once, when it enters a batch; so is the Release command made of collected releases
//   OB-3  each number given to SetReportsSeen is sent to the host once, unless a greater one is sent. It goes with the next frame
//         for the host, or in a frame of its own if there is none before the second TellReportsSeen
//   OB-4  riders are asked once for each frame that leaves, and cause none
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/dispatch/array_order.h"
#include "pathways/v1/worker.pb.h"

namespace pw::dispatch {

// Counters of one host, for tests and `status`: commands by kind, frames, and programs' graphs and runs in dataflow frames.
struct CommandCounters {
  std::map<::pathways::v1::Command::KindCase, uint64_t> commands;
  uint64_t frames = 0;
  uint64_t programs = 0;  // parts of programs' graphs
  uint64_t runs = 0;      // starts of runs of programs

  uint64_t of(::pathways::v1::Command::KindCase kind) const;
};

class Outbox {
 public:
  void AddHost(HostId host);
  void RemoveHost(HostId host);
  bool HasHost(HostId host) const { return hosts_.contains(host); }

  // Adds a command. If it has a payload, the caller announces its size in the command.
  void Add(HostId host, ::pathways::v1::Command command) { Add(host, std::move(command), {}); }
  void Add(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload);
  // Adds a command that never waits. For the commands of the runs that other commands wait for.
  void AddNow(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload = {});
  // Tells the host to free its shards of the array, with the current batch.
  void Release(HostId host, ArrayId array);
  // Returns the order of arrays. It holds each run that is sent node by node, from its request until all of the run has been sent.
  ArrayOrder& order() { return order_; }

  // Acknowledges the host's reports up to this number: completions that came through another host (v1.ToWorker.reports_seen). The
  // greatest number counts.
  void SetReportsSeen(HostId host, uint64_t number);
  // Queues a frame for each host whose acknowledgement was due at the last call and has not gone with another frame since. The caller
  // calls this periodically while it returns true.
  bool TellReportsSeen();

  // `riders` adds to each frame what goes with it if it goes anyhow.
  using Riders = std::function<void(HostId host, ::pathways::v1::ToWorker* frame)>;
  void SetRiders(Riders riders) { riders_ = std::move(riders); }

  // Closes all batches and passes every frame to `send`, in order. Returns whether there was one.
  using Send = absl::FunctionRef<void(HostId host, std::string header, std::vector<Bytes> payload)>;
  bool Flush(Send send);

  // Count a program's graph, and a run of it, that the host gets in a dataflow frame.
  void CountProgram(HostId host);
  void CountRun(HostId host);
  // Returns zeros for an unknown host.
  const CommandCounters& counters(HostId host) const;

 private:
  struct Frame {
    std::string header;
    std::vector<Bytes> payload;
  };
  struct PerHost {
    ::pathways::v1::ToWorker batch;
    std::vector<Bytes> payload;
    size_t header_bytes = 0;  // approximate
    size_t payload_bytes = 0;
    std::vector<uint64_t> released;
    std::vector<Frame> closed;
    CommandCounters counters;
    bool queued = false;  // listed in busy_
    uint64_t reports_seen = 0;
    uint64_t reports_due = 0;  // reports_seen at the last TellReportsSeen
    uint64_t reports_told = 0;
    bool reporting = false;  // listed in reporting_
  };
  void ReleaseNow(HostId host, ArrayId array);
  void Touch(HostId host, PerHost& box);
  static void AddReleases(PerHost& box);
  void Close(HostId host, PerHost& box);

  absl::flat_hash_map<HostId, PerHost> hosts_;
  ArrayOrder order_;
  Riders riders_;
  std::vector<HostId> busy_;       // hosts with something to send, in the order in which they got it
  std::vector<HostId> reporting_;  // hosts that may have to be told reports_seen, in the same order
};

}  // namespace pw::dispatch
