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

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/base/future.h"
#include "pathways/buffers/array_spec.h"
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

class Client {
 public:
  struct Options {
    std::string controller;                       // its address for clients
    std::string description;                      // for people: shown by `pathways status`
    absl::Duration timeout = absl::Seconds(30);   // how long the controller may be out of reach, now and later
  };
  // Waits until the session is open.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);
  // Ends the session, and frees all it owns.
  ~Client();

  const session::ClusterInfo& cluster() const;
  // Compiles a StableHLO module (text or portable artifact) for the devices of the request.
  Future<Executable> Compile(session::CompileRequest request);
  // Makes an array; each shard holds these dense, row-major bytes. REQUIRES: a replicated spec, or one device.
  Array Put(const buffers::ArraySpec& spec, Bytes data);
  std::vector<Array> Execute(const Executable& executable, absl::Span<const Array* const> args);
  // Copies an array to other devices, one for each shard.
  Array Copy(const Array& array, std::vector<DeviceId> devices);
  // Fetches an array that one device holds whole.
  Future<Bytes> Fetch(const Array& array);
  Future<Unit> Ready(const Array& array);

 private:
  friend class Array;
  struct State;
  explicit Client(std::unique_ptr<State> state);
  session::Handle NewHandle();
  void Drop(session::Handle array);

  const std::unique_ptr<State> state_;
};

}  // namespace pw::client
