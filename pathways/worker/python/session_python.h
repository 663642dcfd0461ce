// SessionPython: the Python process of one session on this host, with its functions and calls. The process starts when it is
// needed, also again after it has ended.
//
// A call may take a limited time, by the operator (PythonRights) or by the client's program, which the process tells when it has loaded the function.
// The time of a call begins when its function is loaded and the calls of its stream before it have ended. If it is over, the process is ended: a
// function cannot be stopped otherwise. All calls that it was running fail.
//
// The process's output goes to the client, a piece at a time. If the client is slow, output beyond a limit is dropped, and a line
// says how much. If the client cannot take the output, the worker's log gets it.
//
// When the controller has ended, the next Worker may take it over with its process (Leave, then TakeOver).
//
// Invariants:
//   SY-1  each Load and each call of Send is answered once, unless this is destroyed first
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/device/device.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/sockets/file_socket.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/python/call.h"
#include "pathways/worker/python/process.h"
#include "pathways/worker/store/memory_gate.h"

namespace pw::worker {

class SessionPython final : private PythonProcess::Owner {
 public:
  // The number of the client's function that takes the output of processes. Its operands are the host's name and the text, as u8.
  // The same number is in python/pathways/_callbacks/host_calls.py.
  static constexpr uint64_t kOutputCallback = (uint64_t{1} << 53) - 1;

  // The number of the client's function that tells the stacks of its threads, as exactly kStackBytes of text with zeros at the end.
  static constexpr uint64_t kStacksCallback = kOutputCallback - 1;
  static constexpr int64_t kStackBytes = 32 << 10;

  using Loaded = absl::AnyInvocable<void(const absl::Status&) &&>;
  using ToClient = std::function<void(device::HostCallRequest, std::function<void(device::HostCallReply)> done)>;
  // Called when a call has ended, with the bytes of its results.
  using Ended = std::function<void(const PythonCallRef& call, absl::StatusOr<std::vector<Bytes>> results)>;

  // Shared by all sessions; all members outlive this.
  struct Environment {
    Executor* strand;
    Timers* timers;        // null: calls have no limit of time
    MemoryGate* activity;  // a call counts as activity while the process has it
    const PythonOptions* options;
    net::FileListener* files;
    net::SharedMemoryFactory* memory;
    ToClient to_client;
    std::function<absl::Status(SessionId)> may_start;  // asked before the session's process starts
    Ended ended;
  };

  SessionPython(const Environment& environment, SessionId session, pathways::v1::FunctionHosts hosts)
      : environment_(environment), session_(session), hosts_(std::move(hosts)) {}
  ~SessionPython() override { process_ = nullptr; }

  void Load(const PythonFunction& function, Loaded loaded);
  void Unload(const PythonFunction& function);
  // Sends a call whose arguments have been copied. Its state is kSent afterwards, unless it has ended.
  void Send(const PythonCallRef& call);
  // Asks the process for the stacks of its threads. `done` is called once unless this is destroyed first, with an error if the process has ended.
  // Returns false, and does not call `done`, if there is no process.
  bool AskStacks(std::function<void(absl::StatusOr<std::string>)> done);
  bool has_process() const { return process_ != nullptr; }
  // Ends the process, and fails its loads and calls.
  void Abandon(const absl::Status& why);
  // Forgets what the Worker wants to know, which is dropped. REQUIRES: no call of Send is unanswered.
  void Leave();
  // Goes on with another Worker.
  void TakeOver(const Environment& environment);

 private:
  static constexpr uint64_t kFirstQuestion = uint64_t{1} << 52;  // no call has such a number

  void OnMessage(PythonMessage message) override;
  void OnOutput(absl::string_view text) override;
  void OnEnded(const std::string& how) override;

  absl::Status EnsureLoaded(const PythonFunction& function);
  struct Limit {
    absl::Duration time = absl::InfiniteDuration();
    const char* setting = "";  // by which it is set
  };
  Limit LimitOf(const PythonFunction& function) const;
  void WatchCalls();
  void Watch(const PythonCallRef& call, const Limit& limit);
  void OnLate(uint64_t number, const Limit& limit);
  std::string NameWithPid() const;
  void FailAll(const std::function<absl::Status(bool loading, const std::string& name)>& why);
  void PassOutput();
  void OutputPassed(const std::string& text, const absl::Status& status);

  Environment environment_;
  const SessionId session_;
  const pathways::v1::FunctionHosts hosts_;
  std::unique_ptr<PythonProcess> process_;    // null: there is none now
  int pid_ = 0;                               // the process's, once it has sent something
  absl::flat_hash_set<uint64_t> loaded_;      // the functions that it has been sent, by their numbers
  absl::flat_hash_set<uint64_t> ready_;       // those that it has loaded
  std::map<uint64_t, double> seconds_;        // the program's limits of calls, of all functions that any process has loaded
  std::map<uint64_t, std::vector<std::pair<std::string, Loaded>>> loading_;
  std::map<uint64_t, PythonCallRef> running_;
  uint64_t next_question_ = kFirstQuestion;
  std::map<uint64_t, std::function<void(absl::StatusOr<std::string>)>> asked_;  // for stacks, by number
  std::string output_;
  size_t output_lost_ = 0;
  bool passing_ = false;      // the client has not taken the last piece yet
  bool output_held_ = false;  // until the next controller has the session
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::worker
