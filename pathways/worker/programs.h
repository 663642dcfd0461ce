// Programs: what was compiled for whom, and compiling in the background.
//
// Compilations run on a pool of their own, several at once, first looking into the compile cache. An execution may arrive before
// its program is compiled; it then waits for it like for an input.
//
// Invariants:
//   PG-1  every Compile is answered by exactly one Compiled
//   PG-2  a dropped program stays usable for the executions that hold it
// Lives on the worker's strand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "pathways/base/thread_pool.h"
#include "pathways/worker/compile_cache.h"
#include "pathways/worker/core.h"

namespace pw::worker {

struct Program {
  SessionId session;
  std::vector<int> devices;     // local ordinal of each position, or of each of this host's if there are others
  std::vector<int> positions;   // of `devices`, in a program over several hosts; else empty
  std::vector<uint32_t> hosts;  // of a program over several; else empty
  bool pending = true;
  absl::Status error;                             // why it did not compile
  std::shared_ptr<device::LoadedProgram> loaded;  // null while pending and after an error
  std::vector<int64_t> output_bytes;              // on one device
  std::vector<absl::AnyInvocable<void() &&>> waiters;

  bool spans() const { return !hosts.empty(); }
  // Which shard of an array is on devices[i].
  int shard(size_t i) const { return positions.empty() ? static_cast<int>(i) : positions[i]; }
};
using ProgramRef = std::shared_ptr<Program>;

class Programs {
 public:
  // `pool` and `cache` must outlive every compilation.
  Programs(Core* core, Executor* pool, std::shared_ptr<const CompileCache> cache)
      : core_(core), pool_(pool), cache_(std::move(cache)) {}

  void Compile(const pathways::v1::Compile& command, const Bytes& payload);
  void Drop(ExecutableId executable) { programs_.erase(executable); }
  // Programs over hosts that are not on the list any more will not run again.
  void SetPeers(const pathways::v1::Peers& peers);
  void Describe(const pathways::v1::Describe& command);
  void ReleaseOwner(SessionId session);

  // Null if there is none of this name.
  ProgramRef Find(ExecutableId id) const;

 private:
  struct Result {
    absl::StatusOr<std::shared_ptr<device::LoadedProgram>> program = absl::UnknownError("not compiled");
    bool from_cache = false;
    bool newer_than_runtime = false;  // why it failed
    double seconds = 0;
  };
  static Result CompileNow(device::DeviceRuntime* runtime, const CompileCache& cache, const device::CompileRequest& request);
  void Finish(uint64_t id, const ProgramRef& program, Result result);
  void Answer(uint64_t id, const Result& result);

  Core* const core_;
  Executor* const pool_;
  const std::shared_ptr<const CompileCache> cache_;
  absl::flat_hash_map<ExecutableId, ProgramRef> programs_;
  std::map<uint32_t, std::string> processes_;  // other hosts that programs have named, and where their runtimes are
};

}  // namespace pw::worker
