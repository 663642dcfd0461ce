// Client: drives a cluster from a C++ program; the PJRT door stands on it. It is one session: with a controller elsewhere, for
// which it brings the threads and the sockets, or with a cluster in this process, by direct calls. (Agents use RemoteSession.)
//
//   auto client = client::Client::Connect({.controller = "unix:/run/pathways/clients.sock", .description = "an example"});
//   absl::StatusOr<client::Executable> program = Await((*client)->Compile(std::move(request)));  // base/threads/await.h
//   client::Array x = (*client)->Put(spec, bytes);
//   std::vector<client::Array> y = (*client)->Execute(*program, {&x});
//   absl::StatusOr<Bytes> data = Await((*client)->Fetch(y[0]));
//
// Connect, Open, Leave and the destructor block. Put and Execute wait while the session keeps many megabytes of requests that the
// controller has not taken. All other methods return at once. An Array is a name: a computation may use the result of another one
// that has not run yet. The object may be destroyed as soon as it has been passed on. An operation that fails makes its results
// error arrays. The error passes to all arrays computed from them, and Fetch and Ready report it. The loss of the session is such
// an error, UNAVAILABLE.
//
// Any thread. Calls that happen one after the other take effect in that order. Small arrays of Put, and the release of destroyed
// arrays, wait for the client's next request, or else for kSweep. Arrays and executables must not outlive their client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/future.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/gang/share.h"
#include "pathways/identity/credentials.h"
#include "pathways/session/session.h"

namespace pw::client {

class Client;

// An array of this session; destroying the object releases it.
class Array {
 public:
  Array(Array&& other) noexcept : client_(other.client_), handle_(std::exchange(other.handle_, 0)) {}
  Array& operator=(Array&& other) noexcept;
  ~Array();

  session::Handle handle() const { return handle_; }

 private:
  friend class Client;
  Array(Client* client, session::Handle handle) : client_(client), handle_(handle) {}

  Client* client_;
  session::Handle handle_;  // 0: moved from
};

using Executable = std::shared_ptr<const session::ExecutableInfo>;

// A computation on its way.
struct Run {
  std::vector<Array> results;
  Future<Unit> end;    // the computation has ended on all its devices; valid() only if RunOptions::end was set
  Future<Unit> ready;  // the results are ready, as by Ready of any of them; valid() only if RunOptions::ready was set
};

struct RunOptions {
  std::vector<int32_t> non_donatable = {};  // the indices of arguments that are not donated, although the program says so
  std::vector<DeviceId> devices = {};  // where a portable executable runs; if empty, on the devices for which it was compiled
  std::vector<session::Handle> results = {};  // of arrays that Name made; if empty, Run::results gets new ones
  int32_t launch_id = 0;                      // PJRT's launch_id
  bool end = false;                           // asks for Run::end, which costs a message
  bool ready = false;                         // asks for Run::ready. REQUIRES: the executable has results
};

class Client {
 public:
  static constexpr absl::Duration kSweep = absl::Milliseconds(50);

  struct Options {
    std::string controller;                        // its address for clients
    std::string description;                       // for people: shown by `pathways status`
    gang::ShareChange share = {};                  // of the devices' time, if not the default
    bool ends_on_hang = false;                     // the session, when one of its computations hangs
    absl::Duration timeout = absl::Seconds(30);    // how long Connect tries
    identity::CredentialOptions credentials = {};  // needed unless the address is a Unix socket
    std::string remedy = {};                       // a sentence for the user, added to the error of a lost session
    // Takes lines for the user about a connection that is lost. Called on a thread of the client.
    std::function<void(const std::string&)> say = {};
  };
  // Opens a session. Waits until the controller has answered.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
  // Opens a session with a cluster in this process. The cluster and its timers outlive the client. UNAVAILABLE if the cluster has not formed.
  static absl::StatusOr<std::unique_ptr<Client>> Open(session::Cluster* cluster, Timers* timers, std::string description,
                                                      const gang::ShareChange& share = {});
  // Ends the session, and frees all that it owns on the cluster. Futures that are not set yet become CANCELLED.
  ~Client();
  // Says goodbye to the controller, which would otherwise wait for this client. For a process that ends without destroying this
  // object. Blocks for at most `limit`. No other call may follow.
  void Leave(absl::Duration limit);

  const session::ClusterInfo& cluster() const;
  const session::SpareDevices& spares() const;  // virtual devices for slices, and devices of empty seats
  SessionId session_id() const;
  // Compiles a StableHLO module (text or portable artifact) for the devices of the request.
  Future<Executable> Compile(session::CompileRequest request);
  // Compiles a program of many nodes (proto/pathways/v1/program.proto).
  Future<Executable> CompileProgram(Bytes program);
  // Frees the executable on the cluster once its runs have ended. Without this, it stays until the session ends.
  void Drop(const Executable& executable);
  // Gets the optimized program as a serialized xla.HloModuleProtoWithConfig.
  Future<std::string> Module(const Executable& executable);
  Future<session::CostAnalysis> Costs(const Executable& executable);
  // Makes an array on one device, or replicated over several, of these dense, row-major bytes. A sharded array is assembled from one
  // array for each device.
  Array Put(const buffers::ArraySpec& spec, Bytes data);
  // Makes an array that holds this error.
  Array PutError(const buffers::ArraySpec& spec, absl::Status error);
  std::vector<Array> Execute(const Executable& executable, absl::Span<const Array* const> args);
  Run Execute(const Executable& executable, absl::Span<const Array* const> args, RunOptions options);
  // Names the results of a later Execute of this executable (RunOptions::results).
  std::vector<Array> Name(const Executable& executable);
  // Copies each shard to the device at the same place of `devices`. An empty `memory_kind` is the device's default memory.
  Array Copy(const Array& array, std::vector<DeviceId> devices, std::string memory_kind = "");
  // Makes a sharded array of arrays on single devices, one for each shard, in shard order. Shares their data.
  Array Assemble(const buffers::ArraySpec& spec, absl::Span<const Array* const> singles);
  // Makes an array on a single device of each shard. Shares their data.
  std::vector<Array> Disassemble(const Array& array, int num_shards);
  // Fetches an array that one device holds whole: dense, or with these strides.
  Future<Bytes> Fetch(const Array& array, std::optional<buffers::Dims> byte_strides = std::nullopt);
  // Becomes set when the array is ready, or with its error.
  Future<Unit> Ready(const Array& array);
  // Asks the cluster a question in JSON (session/questions.h), after all earlier operations of this thread.
  Future<std::string> Ask(std::string question);
  // Sets the handler of calls that computations make to functions of this process. Its methods run on the client's own thread, and must
  // not block. Without a handler such calls fail.
  void SetHostCalls(std::shared_ptr<session::HostCallHandler> handler);
  // Runs a task on the client's own thread, where handlers run too.
  void Post(absl::AnyInvocable<void() &&> task);

 private:
  friend class Array;
  struct Way;
  struct State;
  static absl::StatusOr<std::unique_ptr<Client>> Open(std::unique_ptr<State> state, session::NewSession wanted);
  explicit Client(std::unique_ptr<State> state);
  session::Handle NewHandle();
  Array NewArray() { return Array(this, NewHandle()); }
  void Drop(session::Handle array);

  const std::unique_ptr<State> state_;
};

}  // namespace pw::client
