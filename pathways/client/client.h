// Client: a session of a C++ program, with its own threads and network. For programs that have no front door of their own.
//
//   auto client = client::Client::Connect({.controller = "unix:/run/pathways/clients.sock", .description = "an example"});
//   auto program = (*client)->Compile(std::move(request));           // Future<Executable>
//   client::Array x = (*client)->Put(spec, bytes);
//   std::vector<client::Array> y = (*client)->Execute(*program.value(), {&x});
//   Future<Bytes> data = (*client)->Fetch(y[0]);
//
// Only Connect blocks. Arrays are names: a computation may use an array that does not exist yet. An array that failed passes its error to
// the arrays computed from it; Fetch and Ready report the error.
//
// Any thread. Operations take effect in the order of the calls of one thread. Arrays and executables must not outlive their client.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/base/future.h"
#include "pathways/buffers/array_spec.h"
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

// A computation that was sent off.
struct Run {
  std::vector<Array> results;
  Future<Unit> end;  // of the computation on all its devices; no state unless RunOptions::end asks for it
};

struct RunOptions {
  std::vector<int32_t> non_donatable = {};  // arguments that the computation must not take over
  std::vector<DeviceId> devices = {};       // of a portable executable; empty: those for which it was compiled
  int32_t launch_id = 0;
  bool end = false;
};

class Client {
 public:
  struct Options {
    std::string controller;                       // its address for clients
    std::string description;                      // for people: shown by `pathways status`
    absl::Duration timeout = absl::Seconds(30);   // how long the controller may be out of reach at the start
    absl::Duration absence = absl::Seconds(30);   // and later; zero: a broken connection ends the session
    identity::CredentialOptions credentials = {}; // a token file, unless the address is a Unix socket
    std::string remedy = {};                      // advice for people, at the end of the error of a lost session
  };
  // Waits until the session is open.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
  // Ends the session, and frees all it owns.
  ~Client();

  const session::ClusterInfo& cluster() const;
  SessionId session_id() const;
  // Compiles a StableHLO module (text or portable artifact) for the devices of the request.
  Future<Executable> Compile(session::CompileRequest request);
  // The executable will not be used again.
  void Drop(const Executable& executable);
  Future<session::CostAnalysis> Costs(const Executable& executable);
  // Makes an array; each shard holds these dense, row-major bytes. REQUIRES: a replicated spec, or one device.
  Array Put(const buffers::ArraySpec& spec, Bytes data);
  // Makes an array that holds this error.
  Array PutError(const buffers::ArraySpec& spec, absl::Status error);
  std::vector<Array> Execute(const Executable& executable, absl::Span<const Array* const> args);
  Run Execute(const Executable& executable, absl::Span<const Array* const> args, RunOptions options);
  // Copies an array to other devices, one for each shard, and to a kind of memory; empty: the default.
  Array Copy(const Array& array, std::vector<DeviceId> devices, std::string memory_kind = "");
  // Makes one array of single-device arrays, in shard order, and the reverse. Both share the data with what they are made of.
  Array Assemble(const buffers::ArraySpec& spec, absl::Span<const Array* const> singles);
  std::vector<Array> Disassemble(const Array& array, int num_shards);
  // Fetches an array that one device holds whole; dense, or with these strides.
  Future<Bytes> Fetch(const Array& array, std::optional<buffers::Dims> byte_strides = std::nullopt);
  Future<Unit> Ready(const Array& array);
  // Answers the calls that computations make to functions of this process; its methods run on the session's strand, as tasks of Post do. Without
  // a handler such calls fail.
  void SetHostCalls(std::shared_ptr<session::HostCallHandler> handler);
  void Post(absl::AnyInvocable<void() &&> task);

 private:
  friend class Array;
  struct State;
  explicit Client(std::unique_ptr<State> state);
  session::Handle NewHandle();
  Array NewArray() { return Array(this, NewHandle()); }
  void Drop(session::Handle array);

  const std::unique_ptr<State> state_;
};

}  // namespace pw::client
