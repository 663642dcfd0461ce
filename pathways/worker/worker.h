// A worker in the service of one controller: everything it holds, and the commands that act on it.
//
// One Worker exists from Welcome until the controller is lost; then it is dropped with all it holds. The link (controller_link.h)
// reads frames and hands them over; the parts (puts, fetches, moves, ...) do the work.
//
// Invariants:
//   WK-1  commands take effect in the order of Handle
//   WK-2  a malformed batch is refused as a whole, before any of it takes effect; the link then ends the connection
// Lives on the worker's strand, destruction included.
#pragma once

#include <memory>
#include <string>

#include "pathways/net/transport.h"
#include "pathways/worker/aliases.h"
#include "pathways/worker/client_lanes.h"
#include "pathways/worker/core.h"
#include "pathways/worker/executor.h"
#include "pathways/worker/expectations.h"
#include "pathways/worker/fetches.h"
#include "pathways/worker/host_calls.h"
#include "pathways/worker/housekeeping.h"
#include "pathways/worker/moves.h"
#include "pathways/worker/program_runs.h"
#include "pathways/worker/programs.h"
#include "pathways/worker/puts.h"
#include "pathways/worker/report_path.h"
#include "pathways/worker/tracing.h"

namespace pw::worker {

// Per-device and host limits. Units in the names.
struct Limits {
  int64_t device_memory_bytes = 0;           // 0: what the device has
  int64_t staging_bytes = int64_t{4} << 30;  // transfers to this host that are not complete
  int64_t fetch_bytes = int64_t{1} << 30;    // copies in host memory on their way to the controller or to peers
};

// What outlives one controller. All of it must outlive every Worker.
struct Environment {
  device::DeviceRuntime* runtime = nullptr;
  Executor* strand = nullptr;
  Clock* clock = nullptr;
  Timers* timers = nullptr;  // may be none
  Executor* compile_pool = nullptr;
  Executor* copy_pool =
      nullptr;  // where large copies between memories of this host are made; null: the device runtime makes them
  std::shared_ptr<const CompileCache> compile_cache;
  net::Transport* transport = nullptr;
  int* next_launch_id = nullptr;
  Limits limits;
  bool checksum = false;          // transfers to other workers carry checksums
  bool shares_memory = true;      // with other processes of this machine
  bool peers_in_process = false;  // the other workers are in this process: what is sent is handed over where it lies
};

class Worker {
 public:
  // `connection` must outlive this.
  Worker(const Environment& environment, net::Connection* connection, const pathways::v1::Welcome& welcome);
  ~Worker();

  // One frame's commands and their payloads, one after another. Ping, Shutdown and Welcome are the link's.
  absl::Status Handle(const pathways::v1::ToWorker& batch, const Bytes& payload);
  // What has gathered leaves. Called when the strand has run empty.
  void Idle();
  void BulkWritable() { fetches_.Pump(); }

  // For the listener of peer connections.
  Peers& peers() { return peers_; }
  // For that of lanes.
  ClientLanes& lanes() { return lanes_; }
  int64_t arrays() const { return core_.store.arrays(); }
  uint64_t configuration() const { return configuration_; }  // its version
  Spill& spill() { return core_.spill; }
  pathways::v1::MemoryReport Memory() const;
  // What the graphs of the same names do (housekeeping.h).
  void CleanUp(const pathways::v1::CleanUp& what);

 private:
  void Dispatch(const pathways::v1::Command& command, const Bytes& payload);
  void Release(const pathways::v1::Release& command);
  void ReleaseOwner(SessionId session);
  Housekeeping::Duties MakeDuties();
  void Configure(const pathways::v1::HostConfig& config);

  Core core_;
  const bool checksum_;  // by this host's own flags
  uint64_t configuration_ = 0;
  ProgramRuns program_runs_;
  Programs programs_;
  Runner runner_;
  ClientLanes lanes_;
  Puts puts_;
  Fetches fetches_;
  Aliases aliases_;
  Expectations expectations_;
  HostCalls host_calls_;
  Peers peers_;
  ReportPath reports_;
  Moves moves_;
  Tracing tracing_;
  Housekeeping housekeeping_;
};

}  // namespace pw::worker
