#include "pathways/relay/controller_line.h"

#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/log.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/bulk/line.h"
#include "pathways/net/asio_transport.h"

namespace pw::relay {
namespace {

using pathways::v1::BulkFrame;
constexpr absl::Duration kPatience = absl::Seconds(3);  // for a port that a firewall may swallow

struct Fetching {
  net::SharedMemory memory;
  absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done;
  absl::AnyInvocable<void(net::SharedMemory) &&> otherwise;
};
struct Storing {
  Bytes data;
  absl::AnyInvocable<void(absl::Status) &&> done;
  absl::AnyInvocable<void() &&> otherwise;
};

net::AsioOptions TransportOptions() {
  net::AsioOptions options;
  options.limits = bulk::LineLimits();
  return options;
}

}  // namespace

// Everything is its strand's but what the transport calls.
struct ControllerLine::State final : bulk::Line::Owner {
  using Task = std::variant<Fetching, Storing>;

  std::string address;  // that was tried
  std::string secret;
  bool greeted = false;
  bool ended = false;
  uint64_t last_call = 0;
  absl::flat_hash_map<uint64_t, Task> under_way;
  std::unique_ptr<bulk::Line> line;  // null: there is none
  ThreadPool thread{"relay-line", 1};
  Strand strand{&thread};
  net::AsioTransport transport{TransportOptions()};  // last: no callback runs once it has gone

  void OnBulkFrame(BulkFrame frame) override {
    strand.Post([this, frame = std::move(frame)] { Take(frame); });
  }
  void OnBulkClosed(const absl::Status& reason) override {
    strand.Post([this, reason] { Lose(reason); });
  }

  void Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
    if (!connection.ok()) {
      PW_LOG_INFO << "large arrays go through gRPC, for the controller's bulk port cannot be reached (its --listen-bulk): "
                  << connection.status().message();
      return;
    }
    if (ended) return;
    line = std::make_unique<bulk::Line>(*std::move(connection), this);
    line->Start();
  }

  void StartFetch(Buffer buffer, Fetching fetching) {
    if (!greeted) return std::move(fetching.otherwise)(std::move(fetching.memory));
    BulkFrame frame;
    frame.set_call(++last_call);
    frame.mutable_fetch()->set_session(buffer.session);
    frame.mutable_fetch()->set_handle(buffer.handle);
    line->Expect(last_call, fetching.memory.place(), fetching.memory.size());
    under_way.emplace(last_call, std::move(fetching));
    line->Send(frame);
  }

  void StartStore(Buffer buffer, Storing storing) {
    if (!greeted) return std::move(storing.otherwise)();
    BulkFrame frame;
    frame.set_call(++last_call);
    frame.mutable_store()->set_session(buffer.session);
    frame.mutable_store()->set_handle(buffer.handle);
    frame.mutable_store()->set_bytes(storing.data.size());
    under_way.emplace(last_call, std::move(storing));
    line->Send(frame);
  }

  void Take(const BulkFrame& frame) {
    if (frame.has_greeting()) return Greet(frame.greeting());
    const auto it = under_way.find(frame.call());
    if (it == under_way.end() || line == nullptr) return;
    Storing* const storing = std::get_if<Storing>(&it->second);
    if (frame.has_ready() && storing != nullptr) {
      line->SendParts(frame.call(), storing->data);
      line->SendDone(frame.call(), absl::OkStatus());
    } else if (frame.has_done()) {
      Task task = std::move(it->second);
      under_way.erase(it);
      End(frame.call(), std::move(task), bulk::StatusOf(frame.done()));
    } else {
      line->Close(absl::InvalidArgumentError("the controller says what makes no sense on a bulk line"));
    }
  }

  void Greet(const BulkFrame::Greeting& greeting) {
    if (line == nullptr) return;
    if (greeting.secret() != secret)
      return line->Close(absl::PermissionDeniedError("another controller answers at its bulk port"));
    greeted = true;
    PW_LOG_INFO << "large arrays go over a line of their own to " << address;
  }

  void End(uint64_t call, Task task, absl::Status status) {
    if (auto* storing = std::get_if<Storing>(&task)) return std::move(storing->done)(std::move(status));
    Fetching& fetching = std::get<Fetching>(task);
    const absl::Status landed = line->Landed(call, fetching.memory.size());
    if (status.ok()) status = landed;
    if (!status.ok()) return std::move(fetching.done)(std::move(status));
    std::move(fetching.done)(std::move(fetching.memory).Freeze());
  }

  void Lose(const absl::Status& reason) {
    if (!ended) {
      PW_LOG_INFO << "the bulk line to the controller has ended: " << reason.message();
    }
    line = nullptr;
    greeted = false;
    address.clear();  // a session that is opened later may try again
    for (auto& [call, task] : std::exchange(under_way, {})) {
      if (auto* storing = std::get_if<Storing>(&task)) {
        std::move(storing->otherwise)();
      } else {
        auto& fetching = std::get<Fetching>(task);
        std::move(fetching.otherwise)(std::move(fetching.memory));
      }
    }
  }
};

ControllerLine::ControllerLine() : state_(std::make_unique<State>()) {}

ControllerLine::~ControllerLine() { Close(); }

void ControllerLine::Open(const std::string& address, const std::string& secret) {
  state_->strand.Post([state = state_.get(), address, secret] {
    if (state->ended || !state->address.empty()) return;
    state->address = address;
    state->secret = secret;
    state->transport.Connect(address, kPatience, [state](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
      state->strand.Post([state, connection = std::move(connection)]() mutable { state->Connected(std::move(connection)); });
    });
  });
}

void ControllerLine::Close() {
  state_->strand.Post([state = state_.get()] {
    state->ended = true;
    if (state->line != nullptr) state->line->Close(absl::CancelledError("the relay ends"));
  });
}

void ControllerLine::Fetch(Buffer buffer, net::SharedMemory memory, absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done,
                           absl::AnyInvocable<void(net::SharedMemory) &&> otherwise) {
  state_->strand.Post(
      [state = state_.get(), buffer, task = Fetching{std::move(memory), std::move(done), std::move(otherwise)}]() mutable {
        state->StartFetch(buffer, std::move(task));
      });
}

void ControllerLine::Store(Buffer buffer, Bytes data, absl::AnyInvocable<void(absl::Status) &&> done,
                           absl::AnyInvocable<void() &&> otherwise) {
  state_->strand.Post(
      [state = state_.get(), buffer, task = Storing{std::move(data), std::move(done), std::move(otherwise)}]() mutable {
        state->StartStore(buffer, std::move(task));
      });
}

}  // namespace pw::relay
