// Client: a client of the proxy protocol in a simulated process, and its front door.
//
// A client sends the requests of a stock client: serialized, in stream order, each arriving at the controller one travel time later. There
// the real front end decodes them and runs them in a real session. Tasks that arrive in sending order replace gRPC's stream and its calls
// for host buffers.
//
// Invariants:
//   CT-1  every request is answered once: by the server, or with UNAVAILABLE when the controller is gone; both count as answers
//   CT-2  a killed client gets no more answers, and its session ends one travel time later
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

// The front end in a controller process.
struct FrontDoor {
  FrontDoor(Process* controller, std::shared_ptr<controller::Cluster> its_cluster)
      : process(controller), services{frontend::Storage("", ""), controller, controller}, cluster(std::move(its_cluster)) {}

  Process* const process;
  frontend::SessionTable table{[n = uint64_t{1} << 60]() mutable { return n++; }};
  const frontend::HandlerTable handlers;
  const frontend::PluginServices services;
  const std::shared_ptr<controller::Cluster> cluster;  // destroyed first: sessions that end with it leave the table
};

class Client {
 public:
  using Answer = absl::AnyInvocable<void(const absl::StatusOr<frontend::IfrtResponse>&) &&>;
  using Contents = absl::AnyInvocable<void(const absl::StatusOr<Bytes>&) &&>;

  // All arguments must outlive the client.
  Client(Network* network, Process* process, FrontDoor* door);
  ~Client();

  uint64_t NewHandle() { return next_handle_++; }
  void Send(frontend::IfrtRequest request, Answer answer);
  // The calls for host buffers.
  void Store(uint64_t host_buffer, Bytes data);
  void TakeHostBuffer(uint64_t host_buffer, Contents contents);

  // Ends the stream, because the client closes or its process died.
  void Disconnect();
  // The controller is gone: all unanswered requests fail, and so do all later ones.
  void ControllerLost();

  uint64_t requests() const { return next_op_ - 1; }
  uint64_t answers() const { return answers_; }
  // Number of answers that no request waited for.
  uint64_t strays() const { return strays_; }

 private:
  class Link;
  void OnResponse(const frontend::IfrtResponse& response);
  void OnContents(uint64_t host_buffer, const absl::StatusOr<Bytes>& bytes);
  // Runs `task` on the controller's strand after all that was sent before.
  void Up(size_t bytes, absl::AnyInvocable<void(frontend::ClientSession&) &&> task);

  Process* const process_;
  FrontDoor* const door_;
  std::shared_ptr<Link> link_;
  uint64_t next_handle_ = 1;
  uint64_t next_op_ = 1;
  uint64_t answers_ = 0;
  uint64_t strays_ = 0;
  std::map<uint64_t, Answer> waiting_;
  std::map<uint64_t, Contents> contents_;  // requested host buffers
};

}  // namespace pw::sim
