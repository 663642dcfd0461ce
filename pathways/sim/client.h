// Client: a program of stock JAX in a simulated process, with its agent: a front door (frontend/) over a session with the controller
// (client/). In a deployed cluster these are two processes of one machine.
//
// A client sends the requests of a stock client: serialized, in stream order. The front door decodes them and runs them. Its session
// crosses the simulated network in the session protocol, and connects lanes to hosts, as in a deployed cluster.
//
// Invariants:
//   CT-1  each request is answered once, until the client disconnects
//   CT-2  after Disconnect the client gets no more answers
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/threads/strand.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/session_table.h"
#include "pathways/sim/network.h"
#include "pathways/sim/process.h"

namespace pw::sim {

class Client final : private frontend::ResponseSink {
 public:
  using Answer = absl::AnyInvocable<void(const absl::StatusOr<frontend::IfrtResponse>&) &&>;
  using Contents = absl::AnyInvocable<void(const absl::StatusOr<Bytes>&) &&>;

  // `controller`: its address for clients. Network and process must outlive the client.
  Client(Network* network, Process* process, const std::string& controller);
  ~Client() override;

  uint64_t NewHandle() { return next_handle_++; }
  void Send(frontend::IfrtRequest request, Answer answer);
  // The calls for host buffers.
  void Store(uint64_t host_buffer, Bytes data);
  void TakeHostBuffer(uint64_t host_buffer, Contents contents);

  using Placed = absl::AnyInvocable<void(const absl::StatusOr<session::SliceState>&) &&>;
  // Asks for a virtual slice, and waits until it is placed or refused.
  void AddSlice(const resource::SliceRequest& request, Placed placed);
  void ReleaseSlice(SliceId slice);

  // Ends the session, because the client closes or its process has died.
  void Disconnect();

  uint64_t requests() const { return next_op_ - 1; }
  uint64_t answers() const { return answers_; }
  // Number of answers that no request waited for.
  uint64_t strays() const { return strays_; }

 private:
  void Write(frontend::IfrtResponse response) override;
  void OnResponse(const frontend::IfrtResponse& response);
  session::ResultCallback<session::SliceState> Awaiting(Placed placed);
  // Runs the task on the front door's strand after all tasks before it, unless the client has disconnected.
  void AtFrontDoor(absl::AnyInvocable<void(frontend::ClientSession&) &&> task);

  Process* const process_;
  const std::unique_ptr<net::Transport> transport_;
  Strand strand_;
  client::RemoteCluster cluster_;
  frontend::SessionTable table_{[n = uint64_t{1} << 60]() mutable { return n++; }};
  const frontend::HandlerTable handlers_;
  const frontend::PluginServices services_;
  std::shared_ptr<frontend::ClientSession> session_;  // null after Disconnect
  uint64_t next_handle_ = 1;
  uint64_t next_op_ = 1;
  uint64_t answers_ = 0;
  uint64_t strays_ = 0;
  std::map<uint64_t, Answer> waiting_;
};

}  // namespace pw::sim
