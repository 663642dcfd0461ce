#include "pathways/relay/controller_line.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/clock.h"
#include "pathways/base/log.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/bulk/line.h"
#include "pathways/net/asio_transport.h"
#include "pathways/relay/store_ahead.h"

namespace pw::relay {
namespace {

using pathways::v1::BulkFrame;
constexpr absl::Duration kPatience = absl::Seconds(3);         // for a port that a firewall may swallow
constexpr size_t kMostAhead = 4;                               // arrays at a time: the line is busy with fewer
constexpr absl::Duration kLookPeriod = absl::Milliseconds(1);  // some MiB are written meanwhile

net::AsioOptions TransportOptions() {
  net::AsioOptions options;
  options.limits = bulk::LineLimits();
  return options;
}

}  // namespace

// Everything is its strand's but what the transport calls.
struct ControllerLine::State final : bulk::Line::Owner {
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
  using Task = std::variant<Fetching, Storing>;

  std::string address;  // that was tried
  std::string secret;
  bool greeted = false;
  bool ended = false;
  uint64_t last_call = 0;
  absl::flat_hash_map<uint64_t, Task> under_way;
  std::map<uint64_t, StoreAhead> ahead;  // by call
  bool looking = false;                  // at their files, again and again
  std::unique_ptr<bulk::Line> line;      // null: there is none
  SteadyClock clock;
  ThreadPool thread{"relay-line", 1};
  Strand strand{&thread};
  TimerQueue timers{&clock};
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

  void StartAhead(Buffer buffer, bulk::GrowingFile file) {
    if (!greeted || ahead.size() >= kMostAhead || FindAhead(buffer) != ahead.end()) return;
    ahead.try_emplace(++last_call, buffer.session, buffer.handle, std::move(file), clock.Now());
    Look();
  }

  void FinishAhead(Buffer buffer, int64_t bytes, StoreAhead::Finish finish) {
    const auto it = FindAhead(buffer);
    if (it == ahead.end()) return std::move(finish.otherwise)();
    it->second.Whole(*line, it->first, bytes, std::move(finish));
    LookAt(it);
  }

  void DropAhead(uint64_t session) {
    for (auto it = ahead.begin(); it != ahead.end();) {
      if (it->second.session() == session) it->second.Drop(*line, it->first);
      it = it->second.over() ? ahead.erase(it) : std::next(it);
    }
  }

  using Ahead = std::map<uint64_t, StoreAhead>;
  Ahead::iterator FindAhead(Buffer buffer) {
    return std::find_if(ahead.begin(), ahead.end(), [&](const auto& entry) {
      return entry.second.session() == buffer.session && entry.second.handle() == buffer.handle;
    });
  }

  Ahead::iterator LookAt(Ahead::iterator it) {
    it->second.Look(*line, it->first, clock.Now());
    return it->second.over() ? ahead.erase(it) : std::next(it);
  }

  void Look() {
    for (auto it = ahead.begin(); it != ahead.end();) it = LookAt(it);
    if (ahead.empty() || ended || std::exchange(looking, true)) return;
    timers.After(kLookPeriod, &strand, [this] {
      looking = false;
      Look();
    });
  }

  void TakeAhead(Ahead::iterator it, const BulkFrame& frame) {
    if (frame.has_ready()) {
      it->second.Ready(*line, it->first);
    } else if (frame.has_done()) {
      it->second.Ended(bulk::StatusOf(frame.done()));
    }
    LookAt(it);
  }

  void Take(const BulkFrame& frame) {
    if (frame.has_greeting()) return Greet(frame.greeting());
    if (const auto it = ahead.find(frame.call()); it != ahead.end() && line != nullptr) return TakeAhead(it, frame);
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
    for (auto& [call, store] : std::exchange(ahead, {})) store.Lose();
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

// The strand is past it when the members go: it asks for no more timers then.
ControllerLine::~ControllerLine() {
  Close();
  std::promise<void> closed;
  state_->strand.Post([&closed] { closed.set_value(); });
  closed.get_future().wait();
}

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
      [state = state_.get(), buffer, task = State::Fetching{std::move(memory), std::move(done), std::move(otherwise)}]() mutable {
        state->StartFetch(buffer, std::move(task));
      });
}

void ControllerLine::Store(Buffer buffer, Bytes data, absl::AnyInvocable<void(absl::Status) &&> done,
                           absl::AnyInvocable<void() &&> otherwise) {
  state_->strand.Post(
      [state = state_.get(), buffer, task = State::Storing{std::move(data), std::move(done), std::move(otherwise)}]() mutable {
        state->StartStore(buffer, std::move(task));
      });
}

void ControllerLine::SendAhead(Buffer buffer, bulk::GrowingFile file) {
  state_->strand.Post(
      [state = state_.get(), buffer, file = std::move(file)]() mutable { state->StartAhead(buffer, std::move(file)); });
}

void ControllerLine::FinishAhead(Buffer buffer, int64_t bytes, absl::AnyInvocable<void(absl::Status) &&> done,
                                 absl::AnyInvocable<void() &&> otherwise) {
  state_->strand.Post(
      [state = state_.get(), buffer, bytes, finish = StoreAhead::Finish{std::move(done), std::move(otherwise)}]() mutable {
        state->FinishAhead(buffer, bytes, std::move(finish));
      });
}

void ControllerLine::DropAhead(uint64_t session) {
  state_->strand.Post([state = state_.get(), session] { state->DropAhead(session); });
}

}  // namespace pw::relay
