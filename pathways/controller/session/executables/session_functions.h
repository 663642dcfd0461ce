// SessionFunctions: the Python functions of a session that run on hosts (session/host_function.h).
//
// Hosts load functions like programs. A call is one Execute to each host that has shards of the arrays. It is no gang and takes no turn on the
// devices: computations that read its results are granted when it has ended.
//
// A node of a program calls a function the same way, between the commands of the program's other nodes, without strings (LaunchNode). A function on
// devices of virtual slices runs on the hosts of the physical devices, to which its hosts bind the devices that its text names. It is loaded anew
// where the slice moves.
//
// Arrays of strings are in the controller (arrays/string_arrays.h). As arguments they travel with the command; while the client has not sent them,
// the command waits, and those of the same stream behind it. Strings that a function makes come shard by shard as answers to questions
// (Execute.string_results). The call is not settled while such an array is there, at most for kStringsKept: until then another controller gets the
// strings by asking again.
//
// It adds loaded functions to the session's table. SessionExecutables passes it the requests to load and to drop them, JitCalls the
// calls. Strand-confined.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/session/host_function.h"

namespace pw::controller {

class SessionFunctions {
 public:
  // All must outlive this.
  SessionFunctions(SessionContext* context, PendingReads* reads, SessionLanes* lanes, ExecutableTable* table);
  ~SessionFunctions();

  using Info = std::shared_ptr<const ExecutableInfo>;
  // Session::Compile of this format.
  void Compile(CompileRequest request, ResultCallback<Info> done);

  struct Call {
    const program::Executable& function;
    absl::Span<ArrayEntry* const> args;
    const std::vector<Handle>& results;  // new handles
    std::shared_ptr<ExecuteRun> run;     // may be null
    uint64_t stream;
  };
  // REQUIRES: the arguments have been checked, and the hosts are there.
  void Launch(const Call& call);

  // A call by a node of a program. It is sent at once: the program's later nodes name its results. So it may overtake calls of its stream that wait
  // for strings.
  struct NodeCall {
    const program::Executable& function;
    std::string location;  // of the node, for errors
    uint64_t stream;
    std::vector<SessionContext::Record> args;
    std::vector<SessionContext::Record> results;  // new, with one completion outstanding, which the caller gives
    std::function<void(const absl::Status&)> done;  // called when all hosts have ended it
  };
  // `names`: has an op. REQUIRES: the arguments have the specs of the function's.
  void LaunchNode(NameScope& names, const NodeCall& call);
  void OnTick(absl::Time now);  // once a tick
  // Drops a function from its hosts, after the calls that came before.
  void Drop(std::shared_ptr<const program::Executable> function);

 private:
  static constexpr absl::Duration kStringsKept = absl::Minutes(1);

  struct Pending;
  struct Outgoing;
  using StringQueries = std::map<HostId, std::vector<::pathways::v1::Execute::StringResult>>;
  absl::StatusOr<program::Executable> Check(const session::HostFunction& function) const;
  ::pathways::v1::Command LoadCommand(const program::Executable& record, size_t bytes) const;
  void OnLoaded(Pending& pending);
  void AwaitStrings(Handle result, uint32_t index, const SessionContext::SpecPtr& spec, StringQueries* queries);
  void AddOp(const Call& call, HostId host, OpId op, const std::shared_ptr<WeakArrays>& waiting);
  void AddStringArguments(const Call& call, Outgoing* outgoing) const;
  void SendInOrder(uint64_t stream, Outgoing outgoing);
  void Advance(uint64_t stream);
  void Send(Outgoing& outgoing);

  SessionContext* const context_;
  Fabric* const fabric_;
  PendingReads* const reads_;
  SessionLanes* const lanes_;
  ExecutableTable* const table_;
  std::map<uint64_t, std::deque<Outgoing>> waiting_;  // by stream, in order; none is empty
  std::deque<std::pair<absl::Time, std::weak_ptr<StringCell>>> kept_strings_;  // that hold their requests, since when
};

}  // namespace pw::controller
