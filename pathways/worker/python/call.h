// A Python function on this host, and a call of it. Plain data of Functions (functions.h), which owns them, and SessionPython (session_python.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pathways/base/executor.h"
#include "pathways/base/ids.h"
#include "pathways/net/transport.h"
#include "pathways/worker/python/host_part.h"
#include "pathways/worker/python/message.h"
#include "pathways/worker/python/rights.h"
#include "pathways/worker/store/hazards.h"

namespace pw::worker {

// This host's way of running Python functions of clients.
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
};
using PythonFunctionRef = std::shared_ptr<PythonFunction>;

struct PythonCall {
  enum class State { kWaiting, kCopying, kCopied, kSent, kEnded };

  uint64_t number = 0;
  uint64_t op = 0;
  uint64_t stream = 0;
  PythonFunctionRef function;
  State state = State::kWaiting;
  bool turn = false;
  bool held = false;              // its task waits for the turn
  std::vector<ShardRef> args;     // of each argument the host's shards, null for strings; empty once they are copied
  std::vector<Bytes> texts;       // the strings of each of them
  std::vector<ShardRef> results;  // of each result the host's shards, null for strings
  std::vector<std::optional<uint64_t>> queries;  // for each of them: the number of the strings
  Hazards::TaskRef task;
  std::optional<OutgoingMessage> message;
  std::vector<PythonFunctionRef> kept;  // dropped while it was under way
  size_t left = 0;                      // copies and placements
  absl::Status status;
};
using PythonCallRef = std::shared_ptr<PythonCall>;

}  // namespace pw::worker
