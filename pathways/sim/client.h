// Client: a client of the proxy protocol in a simulated process, and the front door that it speaks to.
//
// What it sends is what a stock client sends: requests that were serialized, in stream order, one travel time later at the
// controller, where the real front end decodes them and runs them in a real session. There is no gRPC between: the stream, and the
// calls for host buffers beside it, are imitated by tasks that arrive in the order in which they were sent.
//
// Invariants:
//   CL-1  every request is answered once: by the server, or with UNAVAILABLE when the controller is gone; counted
//   CL-2  a killed client hears nothing any more, and its session ends one travel time later
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/session_table.h"
#include "pathways/sim/network.h"
#include "pathways/sim/process.h"

namespace pw::sim {

// The client half of a controller process.
struct FrontDoor {
  FrontDoor(Process* controller, std::shared_ptr<controller::Cluster> its_cluster)
      : process(controller), services{frontend::Storage("", ""), controller, controller}, cluster(std::move(its_cluster)) {}

  Process* const process;
  frontend::SessionTable table{[n = uint64_t{1} << 60]() mutable { return n++; }};
  const frontend::HandlerTable handlers;
  const frontend::PluginServices services;
  const std::shared_ptr<controller::Cluster> cluster;  // goes first: sessions that end with it leave the table
};

class Client {
 public:
  using Answer = absl::AnyInvocable<void(const absl::StatusOr<frontend::IfrtResponse>&) &&>;
  using Contents = absl::AnyInvocable<void(const absl::StatusOr<Bytes>&) &&>;

  // All outlive it.
  Client(Network* network, Process* process, FrontDoor* door);
  ~Client();

  uint64_t NewHandle() { return next_handle_++; }
  void Send(frontend::IfrtRequest request, Answer answer);
  // The host-buffer calls.
  void Store(uint64_t host_buffer, Bytes data);
  void TakeHostBuffer(uint64_t host_buffer, Contents contents);

  // The stream ends: by the client itself, or because its process died.
  void Disconnect();
  // The controller is gone: everything unanswered fails, and all that is sent from now on.
  void ControllerLost();

  uint64_t requests() const { return next_op_ - 1; }
  uint64_t answers() const { return answers_; }
  // An answer that no request waited for.
  uint64_t strays() const { return strays_; }

 private:
  class Link;
  void OnResponse(const frontend::IfrtResponse& response);
  void OnContents(uint64_t host_buffer, const absl::StatusOr<Bytes>& bytes);
  // Runs `task` on the controller's strand after everything sent before.
  void Up(size_t bytes, absl::AnyInvocable<void(frontend::ClientSession&) &&> task);

  Process* const process_;
  FrontDoor* const door_;
  std::shared_ptr<Link> link_;
  uint64_t next_handle_ = 1;
  uint64_t next_op_ = 1;
  uint64_t answers_ = 0;
  uint64_t strays_ = 0;
  std::map<uint64_t, Answer> waiting_;
  std::map<uint64_t, Contents> contents_;  // host buffers asked for
};

}  // namespace pw::sim
