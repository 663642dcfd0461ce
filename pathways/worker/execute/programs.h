// Programs: the compiled programs of all sessions on this worker; compiles them in the background. The worker passes it the controller's
// commands; ProgramExecutor (program_executor.h) executes the programs.
//
// Compilations run concurrently on a pool of threads. They look first among the programs that have outlived an earlier Worker, then into
// the compile cache. An execution may arrive before its program is
// compiled; it then waits for the program as for an input.
//
// A program runs on a list of devices. A device's place in that list is its *position*, and the index of its shard in every argument and
// result. A program over several hosts is compiled on each of them, and each host keeps only its own positions.
//
// Invariants:
//   PG-1  every Compile is answered by exactly one Compiled
//   PG-2  a dropped program stays usable for the executions that hold it
//   PG-3  users take turns to have programs compiled, and none takes all threads; a session without a user has turns of its own. Programs of
//         a session that has ended are not compiled
// Lives on the worker's strand.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "pathways/base/threads/task_turns.h"
#include "pathways/device/device.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/execute/compile_cache.h"
#include "pathways/worker/execute/kept_programs.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

struct Program {
  SessionId session;
  std::vector<int> devices;     // this host's devices of the program, as local ordinals, in the order of their positions
  std::vector<int> positions;   // the position of each of `devices`; empty if all devices are here (then positions are 0, 1, ...)
  std::vector<uint32_t> hosts;  // all hosts of the program; empty if all devices are here
  std::map<uint32_t, std::string> processes;  // by other host: the address of its runtime
  std::atomic<bool> unwanted = false;         // its session has ended: need not be compiled. Any thread
  bool pending = true;
  absl::Status error;                                  // why it did not compile
  std::shared_ptr<device::LoadedProgram> loaded;       // null while pending and after an error
  std::string kept_name;                               // under which it may outlive the Worker; empty: it may not
  std::vector<int64_t> output_bytes;                   // of each result, on one device
  std::vector<absl::AnyInvocable<void() &&>> waiters;  // called once `pending` is false

  // Returns whether this is a program over several hosts.
  bool spans() const { return !hosts.empty(); }
  // Returns the index of the array shard on devices[i].
  int shard(size_t i) const { return positions.empty() ? static_cast<int>(i) : positions[i]; }
};
using ProgramRef = std::shared_ptr<Program>;

class Programs {
 public:
  // `pool` and `cache` must outlive every compilation. `most_of_one`: the programs of one user that compile at once. `kept`: of an
  // earlier Worker.
  Programs(WorkerContext* context, device::DeviceRuntime* runtime, Executor* pool, int most_of_one,
           std::shared_ptr<const CompileCache> cache, KeptProgramsRef kept)
      : context_(context),
        runtime_(runtime),
        pool_(pool),
        turns_(pool, most_of_one),
        cache_(std::move(cache)),
        kept_(std::move(kept)) {}

  // Begins to compile. `payload` has the program and its options. Find returns the program from now on.
  void Compile(const pathways::v1::Compile& command, const Bytes& payload);
  void Drop(ExecutableId executable) { programs_.erase(executable); }
  // Tells the runtime that hosts which `peers` no longer lists are lost: launches that span them fail.
  void SetPeers(const pathways::v1::Peers& peers);
  // Answers with the program's text or cost analysis (Described). An error if it is unknown, still being compiled, or has failed.
  void Describe(const pathways::v1::Describe& command);
  // Drops all programs of the session.
  void ReleaseOwner(SessionId session);

  // Returns the programs that may outlive this Worker, with those that it has from an earlier one.
  KeptProgramsRef Keep() const;
  // Frees those of the earlier one that no session uses.
  void ForgetKept() { kept_ = nullptr; }

  // Returns null if the id is unknown.
  ProgramRef Find(ExecutableId id) const;

 private:
  struct Result {
    absl::StatusOr<std::shared_ptr<device::LoadedProgram>> program = absl::UnknownError("not compiled");
    bool from_cache = false;
    bool kept = false;                // it has outlived an earlier Worker
    bool newer_than_runtime = false;  // why it failed
    double seconds = 0;
    std::string kept_name;
  };
  static Result CompileNow(device::DeviceRuntime* runtime, const CompileCache& cache, const KeptPrograms* kept,
                           const device::CompileRequest& request);
  void Finish(uint64_t id, const ProgramRef& program, Result result);
  void Answer(uint64_t id, const Result& result);

  WorkerContext* const context_;
  device::DeviceRuntime* const runtime_;
  Executor* const pool_;
  TaskTurns turns_;
  const std::shared_ptr<const CompileCache> cache_;
  KeptProgramsRef kept_;
  absl::flat_hash_map<ExecutableId, ProgramRef> programs_;
  std::map<uint32_t, std::string> processes_;  // other hosts that programs have named, with their runtimes' addresses
};

}  // namespace pw::worker
