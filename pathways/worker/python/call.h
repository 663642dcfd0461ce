// A Python function on this host, and a call of it. Plain data: Functions (functions.h) owns it, and SessionPython
// (session_python.h) uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/transport.h"
#include "pathways/worker/python/host_part.h"
#include "pathways/worker/python/message.h"
#include "pathways/worker/python/rights.h"
#include "pathways/worker/store/hazards.h"

namespace pw::worker {

// Settings of this host for clients' Python functions.
struct PythonOptions {
  std::string python;                   // the interpreter; empty: the operator has not allowed such functions here
  std::string host_name = "this host";  // for errors: "host 'b0' of island 'b'"
  net::Transport* transport = nullptr;  // makes sockets to the processes; null: there are none here
  std::shared_ptr<Executor> threads;    // PythonProcess::Environment::threads
  PythonRights rights;
};

struct PythonFunction {
  ExecutableId id;
  SessionId session;
  HostPart part;
  uint64_t number = 0;  // by which its process knows it, under whichever controller
  std::string content;  // a hash of what was loaded
};
using PythonFunctionRef = std::shared_ptr<PythonFunction>;

struct PythonCall {
  enum class State { kWaiting, kCopying, kCopied, kSent, kEnded };

  uint64_t number = 0;
  uint64_t op = 0;
  uint64_t stream = 0;
  std::string location;  // in the user's program; empty: none
  PythonFunctionRef function;
  State state = State::kWaiting;
  bool turn = false;
  bool held = false;                             // its task waits for the turn
  bool watched = false;                          // a timer runs for its limit of time
  bool begun = false;                            // its arguments are copied, or it is with the process
  std::vector<std::pair<ArrayId, int>> names;    // of `args`: array and shard
  std::vector<ShardRef> args;                    // the host's shards of each argument; null for strings; empty once copied
  std::vector<Bytes> texts;                      // the strings of each entry of `args`
  std::vector<ShardRef> results;                 // the host's shards of each result; null for strings
  std::vector<std::optional<uint64_t>> queries;  // by entry of `results`: the query for its strings
  Hazards::TaskRef task;
  std::optional<OutgoingMessage> message;
  std::vector<PythonFunctionRef> kept;     // dropped during the call; released after it
  size_t left = 0;                         // copies or placements that have not ended
  absl::Time sent = absl::InfinitePast();  // to the process
  absl::Status status;
};
using PythonCallRef = std::shared_ptr<PythonCall>;

}  // namespace pw::worker
