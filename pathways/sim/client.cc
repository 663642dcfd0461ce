#include "pathways/sim/client.h"

#include <algorithm>
#include <utility>

#include "pathways/base/status_code.h"
#include "pathways/frontend/versions.h"

namespace pw::sim {

using frontend::IfrtRequest;
using frontend::IfrtResponse;

// Both ends of a stream. The controller's end owns the session; it outlives the client until the end of the stream has arrived there.
class Client::Link final : public frontend::ResponseSink, public std::enable_shared_from_this<Link> {
 public:
  Link(Client* client, Network* network, Process* near, FrontDoor* door)
      : client(client), network_(network), near_(near), door_(door) {
    frontend::SessionHello hello;
    hello.protocol_version = frontend::protocol::kNewest;
    hello.serdes_version = 3;
    hello.peer = near->name();
    session = std::make_shared<frontend::ClientSession>(door->cluster.get(), &door->table, &door->services, hello, this);
  }

  // Posts a task that arrives at the controller after all earlier ones.
  void Up(size_t bytes, Task task) {
    World& world = near_->world();
    last_up_ = std::max(last_up_, world.now() + network_->Travel(*near_, *door_->process, bytes));
    world.At(last_up_, [self = shared_from_this(), task = std::move(task)]() mutable {
      if (!self->lost) self->door_->cluster->Post(std::move(task));
    });
  }
  void Down(size_t bytes, Task task) {
    World& world = near_->world();
    last_down_ = std::max(last_down_, world.now() + network_->Travel(*door_->process, *near_, bytes));
    world.At(last_down_, [near = near_, task = std::move(task)]() mutable { near->Post(std::move(task)); });
  }
  void Write(IfrtResponse response) override {
    const size_t bytes = response.ByteSizeLong();
    Down(bytes, [self = shared_from_this(), response = std::move(response)] {
      if (self->client != nullptr) self->client->OnResponse(response);
    });
  }

  Client* client;     // null once it is gone
  bool lost = false;  // the controller
  std::shared_ptr<frontend::ClientSession> session;

 private:
  Network* const network_;
  Process* const near_;
  FrontDoor* const door_;
  absl::Time last_up_ = absl::InfinitePast();
  absl::Time last_down_ = absl::InfinitePast();
};

Client::Client(Network* network, Process* process, FrontDoor* door)
    : process_(process), door_(door), link_(std::make_shared<Link>(this, network, process, door)) {}

Client::~Client() { Disconnect(); }

void Client::Up(size_t bytes, absl::AnyInvocable<void(frontend::ClientSession&) &&> task) {
  link_->Up(bytes, [link = link_, task = std::move(task)]() mutable {
    if (link->session->open()) std::move(task)(*link->session);
  });
}

void Client::Send(IfrtRequest request, Answer answer) {
  const uint64_t op = next_op_++;
  if (link_ == nullptr) {
    ++answers_;
    return std::move(answer)(absl::UnavailableError("the controller is gone"));
  }
  request.mutable_request_metadata()->set_op_id(op);
  waiting_.emplace(op, std::move(answer));
  const std::string bytes = request.SerializeAsString();
  Up(bytes.size(), [door = door_, bytes](frontend::ClientSession& session) {
    IfrtRequest read;
    read.ParseFromString(bytes);
    session.Run(frontend::Decode(door->handlers, read));
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
  if (link_ == nullptr) return;
  const size_t bytes = data.size();
  Up(bytes, [host_buffer, data = std::move(data)](frontend::ClientSession& session) {
    // A failure shows in the array that uses the buffer.
    session.session().StoreHostBuffer(host_buffer, data).IgnoreError();
  });
}

void Client::TakeHostBuffer(uint64_t host_buffer, Contents contents) {
  if (link_ == nullptr) return std::move(contents)(absl::UnavailableError("the controller is gone"));
  contents_.emplace(host_buffer, std::move(contents));
  Up(0, [link = link_, host_buffer](frontend::ClientSession& session) {
    session.LookupHostBuffer(host_buffer, [link, host_buffer](absl::StatusOr<Bytes> bytes) {
      if (link->session->open()) link->session->DeleteHostBuffer(host_buffer).IgnoreError();
      const size_t size = bytes.ok() ? bytes->size() : 0;
      link->Down(size, [link, host_buffer, bytes = std::move(bytes)] {
        if (link->client != nullptr) link->client->OnContents(host_buffer, bytes);
      });
    });
  });
}

void Client::OnContents(uint64_t host_buffer, const absl::StatusOr<Bytes>& bytes) {
  const auto it = contents_.find(host_buffer);
  if (it == contents_.end()) {
    ++strays_;
    return;
  }
  Contents contents = std::move(it->second);
  contents_.erase(it);
  std::move(contents)(bytes);
}

void Client::Disconnect() {
  if (link_ == nullptr) return;
  const std::shared_ptr<Link> link = std::exchange(link_, nullptr);
  link->client = nullptr;
  link->Up(0, [link] { link->session->End(); });
}

void Client::ControllerLost() {
  if (link_ == nullptr) return;
  const std::shared_ptr<Link> link = std::exchange(link_, nullptr);
  link->client = nullptr;
  link->lost = true;
  std::map<uint64_t, Answer> waiting;
  waiting.swap(waiting_);
  for (auto& [op, answer] : waiting) {
    ++answers_;
    std::move(answer)(absl::UnavailableError("the controller is gone"));
  }
  std::map<uint64_t, Contents> asked;
  asked.swap(contents_);
  for (auto& [buffer, contents] : asked) std::move(contents)(absl::UnavailableError("the controller is gone"));
}

}  // namespace pw::sim
