// Worker: everything that a worker process holds for one controller. It passes the controller's commands to its parts, which do the work.
//
// A Worker exists from Welcome until the controller is lost, and for some time after that (controller_link.h). Then it is dropped. The next Worker
// gets the compiled programs, and the arrays of sessions that may come back (store/holdings.h). The link parses frames and hands them over; the parts (puts, fetches,
// moves, ...) do the work.
//
// Invariants:
//   WK-1  commands take effect in the order of Handle
//   WK-2  a malformed batch is refused as a whole, with no effect; the link then ends the connection
//   WK-3  a command whose name says which client's request made it is done once, however often it comes (repeated_commands.h)
// Lives on the worker's strand, destruction included.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "pathways/net/transport.h"
#include "pathways/program/command_template.h"
#include "pathways/worker/execute/choices.h"
#include "pathways/worker/execute/expectations.h"
#include "pathways/worker/execute/host_calls.h"
#include "pathways/worker/execute/loops.h"
#include "pathways/worker/execute/profiles.h"
#include "pathways/worker/execute/program_executor.h"
#include "pathways/worker/execute/program_nodes.h"
#include "pathways/worker/execute/programs.h"
#include "pathways/worker/execute/run_context.h"
#include "pathways/worker/execute/stacks.h"
#include "pathways/worker/execute/tracing.h"
#include "pathways/worker/files/array_files.h"
#include "pathways/worker/housekeeping/housekeeping.h"
#include "pathways/worker/housekeeping/report_path.h"
#include "pathways/worker/lanes/client_lanes.h"
#include "pathways/worker/python/functions.h"
#include "pathways/worker/repeated_commands.h"
#include "pathways/worker/route/routes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/holdings.h"
#include "pathways/worker/store/host_memory.h"
#include "pathways/worker/store/host_quota.h"
#include "pathways/worker/store/launch_order.h"
#include "pathways/worker/store/spill.h"
#include "pathways/worker/transfer/aliases.h"
#include "pathways/worker/transfer/fetches.h"
#include "pathways/worker/transfer/moves.h"
#include "pathways/worker/transfer/peer_connections.h"
#include "pathways/worker/transfer/puts.h"

namespace pw::worker {

// Limits per device and per host. Units are in the names.
struct Limits {
  int64_t device_memory_bytes = 0;           // 0: the device's own memory size
  int64_t staging_bytes = int64_t{4} << 30;  // incomplete transfers to this host
  int64_t fetch_bytes = int64_t{1} << 30;    // copies in host memory that await sending to the controller or peers
  int64_t file_bytes = int64_t{1} << 30;     // copies in host memory of tiles that are read from files or written to files
};

// Objects that outlive one controller. All must outlive every Worker.
struct Environment {
  device::DeviceRuntime* runtime = nullptr;
  Executor* strand = nullptr;
  Clock* clock = nullptr;
  Timers* timers = nullptr;  // may be null
  Executor* compile_pool = nullptr;
  int compiles_of_one = 2;        // programs of one user that compile at once; the pool should have more threads
  Executor* copy_pool = nullptr;  // makes large copies between memories of this host; null: the device runtime makes them
  Executor* disk = nullptr;       // reads and writes clients' files; null: such commands fail
  storage::Places client_files;   // where clients may save arrays
  std::shared_ptr<const CompileCache> compile_cache;
  KeptProgramsRef kept_programs = nullptr;  // of the Worker before; set by the link
  Holdings* holdings = nullptr;             // the same; null: it has left nothing. Read by the constructor
  std::shared_ptr<Functions::Kept> python_processes = nullptr;  // the same
  net::Transport* transport = nullptr;
  PythonOptions python;
  int* next_launch_id = nullptr;  // counts launches over all Workers
  Limits limits;
  bool checksum = false;      // transfers to other workers are checksummed
  bool shares_memory = true;  // with other processes of this machine
  std::function<pathways::v1::Examination()>
      examine_machine;                         // describes the machine, without the launches; null: an empty answer
  std::function<std::string()> native_stacks;  // returns the stacks of this process's threads; null: they are not told
  bool peers_in_process = false;               // the other workers are in this process: data is passed to them without a copy
};

class Worker {
 public:
  // `sink`, for frames to the controller, must outlive this.
  Worker(const Environment& environment, net::FrameSink* sink, const pathways::v1::Welcome& welcome);
  ~Worker();

  // Handles one frame's commands and their concatenated payloads. The link handles Ping and the commands about connections.
  absl::Status Handle(const pathways::v1::ToWorker& batch, const Bytes& payload);
  // Sends the events that have gathered. Called when the strand has run empty.
  void Idle();
  // Sends more fetched bytes, now that the connection to the controller takes them.
  void BulkWritable() { fetches_.Pump(); }

  // For the listener of peer connections.
  PeerConnections& peers() { return peers_; }
  // For the listener of lanes.
  ClientLanes& lanes() { return lanes_; }
  int64_t arrays() const { return arrays_.store().arrays(); }
  // Number of bytes of arrays, on devices and on their way, that are charged to sessions.
  int64_t charged_bytes() const { return arrays_.ledger().charged_bytes() + host_quota_.charged_bytes(); }
  // Number of programs of many nodes in which this host has a part.
  size_t programs() const { return housekeeping_.runtime().GraphsWith(program::kNodeOperator); }
  uint64_t configuration() const { return configuration_; }  // its version
  // Number of names of commands that this host keeps in order to recognize them.
  int64_t had_names() const { return context_.had().names(); }
  Spill& spill() { return spill_; }
  // Returns the compiled programs, for the next Worker.
  KeptProgramsRef KeepPrograms() const { return programs_.Keep(); }
  // Frees the programs of the Worker before that nobody uses.
  void ForgetKeptPrograms() { programs_.ForgetKept(); }
  // Returns the sessions of which it holds anything that may outlive the controller.
  std::set<SessionId> HeldSessions() const;
  // Returns whether computations have begun on the devices, or calls of Python functions, and not ended.
  bool computes() const { return !runner_.Computing().empty() || !functions_.Calling().empty(); }
  // The controller has ended: no Python function is called any more.
  void BeginNoMoreCalls() { functions_.Freeze(); }
  // Takes out what the next Worker keeps of these sessions. Called last, when the controller has ended.
  Holdings TakeHoldings(std::set<SessionId> sessions);
  // Called after that.
  std::shared_ptr<Functions::Kept> TakePythonProcesses(const std::set<SessionId>& sessions) { return functions_.Keep(sessions); }
  // Called before it is dropped because its controller has ended: no device may wait for other hosts any more.
  void Abandon(const absl::Status& why) { runner_.AbortLaunches(why); }
  uint64_t last_launch() const { return runner_.last_launch(); }
  pathways::v1::MemoryReport Memory() const;
  pathways::v1::MetricsReport Metrics() const;
  pathways::v1::HealthReport Health() const;
  // These do the work of the graphs of the same names (housekeeping.h).
  void CleanUp(const pathways::v1::CleanUp& what);
  void Configure(const pathways::v1::HostConfig& config);

 private:
  void Dispatch(const pathways::v1::Command& command, const Bytes& payload);
  void Compile(const pathways::v1::Compile& command, const Bytes& payload);
  void Execute(const pathways::v1::Execute& command);
  void SetPeers(const pathways::v1::Peers& peers);
  void Release(const pathways::v1::Release& command);
  void ReleaseOwner(SessionId session);
  Housekeeping::Duties MakeDuties();
  dataflow::Operators OperatorsOfPrograms();
  RunContext MakeRunContext();

  // State that the parts below share.
  WorkerContext context_;
  HostMemory host_memory_;
  DeviceArrays arrays_;
  HostQuota host_quota_;
  LaunchOrder order_;
  Spill spill_;

  const bool checksum_;  // set by this host's own flags
  const std::function<pathways::v1::Examination()> examine_machine_;
  uint64_t configuration_ = 0;
  ProgramNodes program_nodes_;
  Programs programs_;
  ProgramExecutor runner_;
  ClientLanes lanes_;
  Puts puts_;
  RepeatedCommands repeated_;
  Fetches fetches_;
  Aliases aliases_;
  Expectations expectations_;
  HostCalls host_calls_;
  Functions functions_;
  Stacks stacks_;
  PeerConnections peers_;
  Loops loops_;
  Choices choices_;
  ReportPath reports_;
  Moves moves_;
  Routes routes_;
  ArrayFiles files_;
  Profiles profiles_;
  Tracing tracing_;
  Housekeeping housekeeping_;
};

}  // namespace pw::worker
