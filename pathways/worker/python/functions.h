// Functions: clients' Python functions on this host (session/host_function.h), the processes that run them, and their calls.
//
// A session has one process here. It starts when the session's first function is loaded, and ends with the session. If it ends by
// itself, its loads and calls fail with errors that say how it ended. The next load or call starts a new process, which
// loads functions again when they are called.
//
// A call waits for its arguments and for its turn. Calls of one session and stream go to the process in the order of their
// commands, a few ahead of the one that runs. Calls of different streams run at the same time. At a call's turn, its arguments
// are copied into memory that the process maps (message.h). Its results are placed on the devices, but it takes no turn there.
//
// Controllers that return. When the controller has ended, no call gets its turn any more (Freeze). The calls that have begun end, and the worker waits
// for them. Then the next Worker takes over the processes of the sessions that may return, with the functions that they have loaded (Keep). It
// knows a function by its content when the next controller compiles it: then the process does not load it again. A call that has not begun
// comes again.
//
// Invariants:
//   FN-1  each Compile is answered by one Compiled, each Execute by one Done, each string result by one Described
//   FN-2  calls of one stream are sent in order; of each stream at most kAhead are in the process or being copied for it
//   FN-3  a dropped function stays usable for the calls that hold it. The process drops it after all earlier calls of the
//         session, because they may use objects that the function holds (jax's colocated classes)
//   FN-4  a process starts only while its user has fewer on this host than the quota (accounts.h)
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/device/device.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/sockets/file_socket.h"
#include "pathways/net/transport.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/python/call.h"
#include "pathways/worker/python/session_python.h"
#include "pathways/worker/store/accounts.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

class Functions {
 public:
  static constexpr int kAhead = 2;
  using ToClient = SessionPython::ToClient;

  struct Kept;  // processes that outlive a Worker
  // `timers` may be null: then calls have no limit of time. `kept`: of the Worker before; may be null.
  Functions(WorkerContext* context, DeviceArrays* arrays, Timers* timers, PythonOptions options, ToClient to_client,
            std::shared_ptr<Kept> kept = nullptr);
  ~Functions();

  void Compile(const pathways::v1::Compile& command, const Bytes& payload);
  bool Has(ExecutableId id) const { return functions_.contains(id); }
  // REQUIRES: Has the executable.
  void Execute(const pathways::v1::Execute& command);
  void Drop(ExecutableId id);
  void ReleaseOwner(SessionId session);
  // Asks the session's process on this host for the stacks of its threads (SessionPython::AskStacks).
  bool AskStacks(SessionId session, std::function<void(absl::StatusOr<std::string>)> done);
  // Begins no call any more: the controller has ended.
  void Freeze() { frozen_ = true; }
  // Returns the sessions of which a call has begun and not ended, and those that have processes.
  std::set<SessionId> Calling() const;
  std::set<SessionId> WithProcesses() const;
  // Gives the names of arrays back that calls would read which have not begun.
  void Unbegin();
  // Takes out the processes of these sessions, for the next Worker. Called last. REQUIRES: none of these is Calling.
  std::shared_ptr<Kept> Keep(const std::set<SessionId>& sessions);
  // Returns the number of processes that a user has on this host.
  int64_t processes(const Account& account) const;

 private:
  struct Stream;
  struct Client;  // a session

  absl::Status CheckAllowed();
  absl::Status CheckQuota(SessionId session) const;
  SessionPython::Environment ForSessions();
  void TakeOver(Kept& kept);
  void MakeFunction(const pathways::v1::Compile& command, HostPart part, std::string content);
  // The command is done.
  void End(const PythonCallRef& call, const absl::Status& status);
  absl::Status CheckCounts(const PythonFunction& function, const pathways::v1::Execute& command) const;
  void Answer(uint64_t executable, const std::string& name, const absl::Status& status);
  Hazards::Outcome Start(const PythonCallRef& call, const absl::Status& inputs);
  absl::Status Copy(const PythonCallRef& call);
  void Copied(const PythonCallRef& call, const absl::Status& status);
  void Advance(SessionId session, uint64_t stream);
  void PlaceResults(const PythonCallRef& call, std::vector<Bytes> parts);
  void Placed(const PythonCallRef& call, const absl::Status& status);
  void FailHere(const PythonCallRef& call, const absl::Status& error);
  void Fail(const PythonCallRef& call, const absl::Status& error);
  void Leave(const PythonCallRef& call);
  void AnswerString(uint64_t query, const absl::StatusOr<Bytes>& contents);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  Timers* const timers_;
  const PythonOptions options_;
  const ToClient to_client_;
  std::unique_ptr<net::SharedMemoryFactory> memory_;  // without a pool: the processes keep mappings as long as they like
  std::unique_ptr<net::FileListener> files_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  uint64_t next_call_ = 1;
  uint64_t next_function_ = 1;
  bool frozen_ = false;
  std::map<SessionId, int> begun_;  // the number of calls that have begun and not ended
  absl::flat_hash_map<ExecutableId, PythonFunctionRef> functions_;
  std::map<SessionId, std::unique_ptr<Client>> clients_;
};

}  // namespace pw::worker
