#include "pathways/sim/client.h"

#include <utility>

#include "pathways/base/status_code.h"
#include "pathways/frontend/versions.h"

namespace pw::sim {
namespace {

using frontend::IfrtRequest;
using frontend::IfrtResponse;

// The controller decides how long a session outlives its connection (CutsClients in scenario.h).
client::RemoteCluster::Options OptionsFor(const std::string& controller) {
  client::RemoteCluster::Options options;
  options.controller = controller;
  return options;
}

constexpr absl::Duration kSliceWait = absl::Seconds(30);  // of one question

frontend::SessionHello HelloOf(const Process& process) {
  frontend::SessionHello hello;
  hello.protocol_version = frontend::protocol::kNewest;
  hello.serdes_version = 3;
  hello.peer = process.name();
  return hello;
}

}  // namespace

Client::Client(Network* network, Process* process, const std::string& controller)
    : process_(process),
      transport_(network->TransportOf(process)),
      strand_(process),
      cluster_(OptionsFor(controller), {transport_.get(), &strand_, process, process}),
      services_{storage::Roots("", ""), process, process},
      session_(std::make_shared<frontend::ClientSession>(&cluster_, &table_, &services_, HelloOf(*process),
                                                         static_cast<frontend::ResponseSink*>(this))) {}

Client::~Client() {
  Disconnect();
  cluster_.EndSessionsHere();  // also one that is being opened
  strand_.DropQueued();  // its tasks may hold the last reference to a session
}

void Client::AtFrontDoor(absl::AnyInvocable<void(frontend::ClientSession&) &&> task) {
  strand_.Post([this, task = std::move(task)]() mutable {
    if (session_ != nullptr) std::move(task)(*session_);
  });
}

void Client::Send(IfrtRequest request, Answer answer) {
  const uint64_t op = next_op_++;
  request.mutable_request_metadata()->set_op_id(op);
  waiting_.emplace(op, std::move(answer));
  AtFrontDoor([this, bytes = request.SerializeAsString()](frontend::ClientSession& session) {
    IfrtRequest read;
    read.ParseFromString(bytes);
    session.Run(frontend::Decode(handlers_, read));
  });
}

void Client::Write(IfrtResponse response) {
  process_->Post([this, response = std::move(response)] {
    if (session_ != nullptr) OnResponse(response);
  });
}

void Client::OnResponse(const IfrtResponse& response) {
  const auto it = waiting_.find(response.response_metadata().op_id());
  if (it == waiting_.end()) {
    ++strays_;
    return;
  }
  Answer answer = std::move(it->second);
  waiting_.erase(it);
  ++answers_;
  process_->world().Mix(response.response_metadata().op_id());
  const auto& status = response.response_metadata().status();
  if (status.code() == 0) return std::move(answer)(response);
  std::move(answer)(StatusFrom(static_cast<int>(status.code()), status.message()));
}

void Client::Store(uint64_t host_buffer, Bytes data) {
  AtFrontDoor([host_buffer, data = std::move(data)](frontend::ClientSession& session) {
    // A failure shows in the array that uses the buffer.
    session.session().StoreHostBuffer(host_buffer, data).IgnoreError();
  });
}

void Client::TakeHostBuffer(uint64_t host_buffer, Contents contents) {
  AtFrontDoor([this, host_buffer, contents = std::move(contents)](frontend::ClientSession& session) mutable {
    auto found = [this, contents = std::move(contents)](absl::StatusOr<Bytes> bytes) mutable {
      process_->Post([this, contents = std::move(contents), bytes = std::move(bytes)]() mutable {
        if (session_ != nullptr) std::move(contents)(bytes);
      });
    };
    session.LookupHostBuffer(host_buffer, std::move(found));
    session.DeleteHostBuffer(host_buffer).IgnoreError();
  });
}

session::ResultCallback<session::SliceState> Client::Awaiting(Placed placed) {
  return [this, placed = std::move(placed)](absl::StatusOr<session::SliceState> state) mutable {
    if (session_ == nullptr) return;
    if (state.ok() && state->what == session::SliceState::What::kWaiting)
      return cluster_.AwaitSlice(session_->session().id(), state->slice, kSliceWait, Awaiting(std::move(placed)));
    process_->Post([this, placed = std::move(placed), state = std::move(state)]() mutable {
      if (session_ != nullptr) std::move(placed)(state);
    });
  };
}

void Client::AddSlice(const resource::SliceRequest& request, Placed placed) {
  AtFrontDoor([this, request, placed = std::move(placed)](frontend::ClientSession& session) mutable {
    cluster_.AddSlice(session.session().id(), request, Awaiting(std::move(placed)));
  });
}

void Client::ReleaseSlice(SliceId slice) {
  AtFrontDoor([this, slice](frontend::ClientSession& session) {
    cluster_.ReleaseSlice(session.session().id(), slice, [](absl::Status) {});
  });
}

void Client::Disconnect() {
  if (const auto session = std::exchange(session_, nullptr)) session->End();
}

}  // namespace pw::sim
