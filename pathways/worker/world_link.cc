#include "pathways/worker/world_link.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/session/wire.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

namespace v1 = ::pathways::v1;

namespace {

constexpr absl::Duration kSilenceBeforeFormed = absl::Seconds(30);
constexpr absl::Duration kConnectTime = absl::Seconds(6);
constexpr absl::Duration kPauseBeforeFormed = absl::Milliseconds(500);
constexpr absl::Duration kPauseAfterBreak = absl::Milliseconds(50);
constexpr absl::Duration kLongestWait = absl::Hours(24);
constexpr size_t kRoomForOthers = 1024;  // bytes of a frame besides the key and the value
constexpr size_t kShownKeyBytes = 120;

// Returns the key of a request for an error's text.
std::string ShownKey(const v1::FromRuntime& request) {
  const std::string& key = request.has_put() ? request.put().key() : request.get().key();
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kShownKeyBytes)), key.size() > kShownKeyBytes ? "...'" : "'");
}

}  // namespace

class WorldLink::Handler final : public net::Connection::Handler {
 public:
  Handler(WorldLink* link, net::Connection* connection, uint64_t generation)
      : link_(link->weak_from_this()),
        strand_(&link->strand_),
        clock_(link->environment_.clock),
        connection_(connection),
        generation_(generation),
        last_heard_(absl::ToUnixNanos(clock_->Now())) {}

  absl::Time last_heard() const { return absl::FromUnixNanos(last_heard_.load()); }

  void OnFrame(net::Frame frame) override {
    last_heard_.store(absl::ToUnixNanos(clock_->Now()));
    v1::ToRuntime message;
    if (message.ParseFromString(frame.header) && message.kind_case() != v1::ToRuntime::KIND_NOT_SET) {
      return PostToLink([message = std::move(message), payload = std::move(frame.payload)](WorldLink& link, uint64_t generation) {
        link.OnMessage(generation, message, payload);
      });
    }
    v1::ToWorker commands;
    if (!commands.ParseFromString(frame.header))
      return connection_->Close(absl::InvalidArgumentError("the controller sent a message that does not parse"));
    for (const v1::Command& command : commands.commands()) {
      if (command.has_ping()) AnswerPing(command.ping());
      if (!command.has_shutdown()) continue;
      PostToLink(
          [reason = command.shutdown().reason()](WorldLink& link, uint64_t generation) { link.OnShutdown(generation, reason); });
    }
  }
  void OnClosed(const absl::Status& reason) override {
    PostToLink([reason](WorldLink& link, uint64_t generation) { link.OnLost(generation, reason); });
  }
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override {
    if (header_bytes <= kMostFrameBytes && payload_bytes <= kMostFrameBytes - header_bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the controller sent a frame of ", header_bytes, " and ", payload_bytes,
                                                   " bytes; the limit is ", kMostFrameBytes));
  }

 private:
  void AnswerPing(const v1::Ping& ping) {
    v1::FromWorker pong;
    pong.set_beside(true);
    pong.add_events()->mutable_pong()->set_sequence(ping.sequence());
    connection_->Send(pong.SerializeAsString());
  }
  template <class F>
  void PostToLink(F f) {
    strand_->Post([weak = link_, generation = generation_, f = std::move(f)] {
      if (const auto link = weak.lock()) f(*link, generation);
    });
  }

  const std::weak_ptr<WorldLink> link_;
  Strand* const strand_;
  Clock* const clock_;
  net::Connection* const connection_;
  const uint64_t generation_;
  std::atomic<int64_t> last_heard_;  // in nanoseconds
};

std::shared_ptr<WorldLink> WorldLink::Create(const Environment& environment, WorldOptions options, Over over) {
  return std::shared_ptr<WorldLink>(new WorldLink(environment, std::move(options), std::move(over)));
}

WorldLink::WorldLink(const Environment& environment, WorldOptions options, Over over)
    : environment_(environment),
      options_(std::move(options)),
      over_(std::move(over)),
      run_(RandomKey()),
      strand_(environment.executor) {}

template <class F>
void WorldLink::Post(F task) {
  strand_.Post([weak = weak_from_this(), task = std::move(task)]() mutable {
    if (const auto self = weak.lock()) task(*self);
  });
}

template <class F>
void WorldLink::After(absl::Duration delay, F task) {
  // The executor outlives this, and the strand does not.
  environment_.timers->After(delay, environment_.executor, [weak = weak_from_this(), task = std::move(task)]() mutable {
    if (const auto self = weak.lock()) self->Post(std::move(task));
  });
}

std::string WorldLink::Who() const { return absl::StrCat("host '", options_.host_name, "' of island '", options_.island, "'"); }

absl::StatusOr<device::World> WorldLink::Form() {
  Promise<device::World> promise;
  const Future<device::World> formed = promise.future();
  Post([promise = std::move(promise)](WorldLink& self) mutable {
    if (!self.ended_.ok()) return promise.Set(self.ended_);
    self.forming_.emplace(std::move(promise));
    self.Connect();
  });
  PW_ASSIGN_OR_RETURN(device::World world, Await(formed));
  world.store = shared_from_this();
  return world;
}

void WorldLink::Stop(const std::string& reason) {
  Post([reason](WorldLink& self) { self.End(absl::CancelledError(absl::StrCat(self.Who(), " stops: ", reason))); });
}

absl::Status WorldLink::Put(absl::string_view key, absl::string_view value) {
  if (key.size() + value.size() > kMostFrameBytes - kRoomForOthers) {
    return absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " bytes and its value of ", value.size(),
                                                   " do not fit into a frame of ", kMostFrameBytes));
  }
  v1::FromRuntime message;
  message.mutable_put()->set_key(std::string(key));
  message.mutable_put()->set_value(std::string(value));
  return Ask(std::move(message), key, std::nullopt).status();
}

absl::StatusOr<std::string> WorldLink::Get(absl::string_view key, absl::Duration timeout) {
  v1::FromRuntime message;
  message.mutable_get();
  return Ask(std::move(message), key, std::clamp(timeout, absl::ZeroDuration(), kLongestWait));
}

absl::StatusOr<std::string> WorldLink::TryGet(absl::string_view key) {
  v1::FromRuntime message;
  message.mutable_get();
  return Ask(std::move(message), key, std::nullopt);
}

absl::StatusOr<std::string> WorldLink::Ask(v1::FromRuntime message, absl::string_view key, std::optional<absl::Duration> wait) {
  if (key.size() > kMostFrameBytes - kRoomForOthers)
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", key.size(), " bytes does not fit into a frame of ", kMostFrameBytes));
  if (message.has_get()) message.mutable_get()->set_key(std::string(key));
  Request request{.message = std::move(message), .deadline = std::nullopt, .answer = {}};
  if (wait.has_value()) request.deadline = environment_.clock->Now() + *wait;
  const absl::Duration limit = wait.has_value() ? *wait + kAnswerTime : kRequestTime;
  const Future<std::string> answer = request.answer.future();
  Post([request = std::move(request), limit](WorldLink& self) mutable { self.Begin(std::move(request), limit); });
  return Await(answer);
}

void WorldLink::Begin(Request request, absl::Duration limit) {
  if (!ended_.ok()) return request.answer.Set(ended_);
  const uint64_t number = next_request_++;
  Request& begun = requests_.emplace(number, std::move(request)).first->second;
  if (joined_) SendRequest(number, begun);
  After(limit, [number](WorldLink& self) {
    auto late = self.requests_.extract(number);
    if (late.empty()) return;
    late.mapped().answer.Set(
        absl::DeadlineExceededError(absl::StrCat(self.Who(), " waits in vain for the key ", ShownKey(late.mapped().message),
                                                 ": the controller at ", self.options_.controller, " does not answer")));
  });
}

void WorldLink::SendRequest(uint64_t number, Request& request) {
  if (request.message.has_put()) {
    request.message.mutable_put()->set_request(number);
  } else {
    request.message.mutable_get()->set_request(number);
  }
  if (request.deadline.has_value()) {
    const absl::Duration left = std::max(*request.deadline - environment_.clock->Now(), absl::ZeroDuration());
    request.message.mutable_get()->set_wait_milliseconds(absl::ToInt64Milliseconds(left));
  }
  connection_->Send(request.message.SerializeAsString());
}

void WorldLink::Connect() {
  if (!ended_.ok()) return;
  environment_.transport->Connect(
      options_.controller, kConnectTime,
      [weak = weak_from_this(), strand = &strand_](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        const auto link = weak.lock();
        if (link == nullptr) return;
        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
        strand->Post([weak, shared] {
          if (const auto self = weak.lock()) self->Connected(std::move(*shared));
        });
      });
}

void WorldLink::Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  if (!ended_.ok()) return;
  absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kController) : connection.status();
  if (absl::IsUnauthenticated(status) && forming_.has_value()) return End(status);
  if (!status.ok()) {
    if (!std::exchange(complained_, true)) {
      PW_LOG_WARNING << "no controller at " << options_.controller << " for the world of island '" << options_.island << "' ("
                     << status.message() << "); trying on";
    }
    return Reconnect();
  }
  complained_ = false;
  connection_ = *std::move(connection);
  handler_ = std::make_unique<Handler>(this, connection_.get(), ++generation_);
  joined_ = false;
  silence_limit_ = kSilenceBeforeFormed;
  connection_->Start(handler_.get());
  v1::FromRuntime message;
  v1::JoinWorld& join = *message.mutable_join();
  join.set_token(options_.token);
  join.set_own_end(connection_->own_end());
  join.set_island(options_.island);
  join.set_host_name(options_.host_name);
  join.set_hosts(static_cast<uint32_t>(options_.hosts));
  join.set_run(run_);
  if (world_.has_value()) {
    join.set_world(world_->name);
    join.set_node(static_cast<uint32_t>(world_->node));
  } else {
    PW_LOG_INFO << Who() << " waits for the other hosts of its island, which has " << options_.hosts;
  }
  connection_->Send(message.SerializeAsString());
  Watch(generation_);
}

void WorldLink::OnMessage(uint64_t connection, const v1::ToRuntime& message, const Bytes& payload) {
  if (connection != generation_ || !ended_.ok()) return;
  if (message.has_formed()) return OnFormed(message.formed());
  if (message.has_answer()) return OnAnswer(message.answer(), payload);
  const std::string reason = message.over().reason();
  End(absl::UnavailableError(absl::StrCat(Who(), " has no world any more: ", reason)));
  if (world_.has_value()) over_(reason);
}

void WorldLink::OnShutdown(uint64_t connection, const std::string& reason) {
  if (connection != generation_ || !ended_.ok()) return;
  if (!forming_.has_value()) return End(absl::UnavailableError(absl::StrCat("the controller stops this host: ", reason)));
  End(absl::FailedPreconditionError(
      absl::StrCat("the controller at ", options_.controller, " does not take this worker: ", reason)));
}

void WorldLink::OnFormed(const v1::WorldFormed& formed) {
  if (formed.silence_seconds() > 0) silence_limit_ = absl::Seconds(formed.silence_seconds());
  const bool is_new = !world_.has_value();
  if (is_new)
    world_.emplace(device::World{formed.world(), static_cast<int>(formed.node()), static_cast<int>(formed.nodes()), nullptr});
  joined_ = true;
  for (auto& [number, request] : requests_) SendRequest(number, request);
  if (!is_new) {
    PW_LOG_INFO << Who() << " is back in its world";
    return;
  }
  PW_LOG_INFO << Who() << " is process " << world_->node << " of " << world_->nodes << " of the world of its island ("
              << world_->name << ")";
  std::exchange(forming_, std::nullopt)->Set(*world_);
}

void WorldLink::OnAnswer(const v1::ValueAnswer& answer, const Bytes& value) {
  auto answered = requests_.extract(answer.request());
  if (answered.empty()) return;  // it was late
  const absl::Status status = session::StatusFrom(answer.status());
  answered.mapped().answer.Set(status.ok() ? absl::StatusOr<std::string>(value.view()) : status);
}

void WorldLink::OnLost(uint64_t connection, const absl::Status& reason) {
  if (connection != generation_ || connection_ == nullptr) return;
  ++generation_;
  connection_ = nullptr;
  handler_ = nullptr;
  joined_ = false;
  if (!ended_.ok()) return;
  if (forming_.has_value() && options_.exit_with_controller) return End(reason);
  PW_LOG_WARNING << Who() << " has lost its connection for the world of its island, and makes it again: " << reason.message();
  Reconnect();
}

void WorldLink::Watch(uint64_t connection) {
  if (connection != generation_ || connection_ == nullptr) return;
  const absl::Duration silence = environment_.clock->Now() - handler_->last_heard();
  if (silence >= silence_limit_) {
    return connection_->Close(
        absl::UnavailableError(absl::StrCat("nothing heard from the controller at ", options_.controller, " for ",
                                            absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(1))))));
  }
  After(std::clamp(silence_limit_ - silence, absl::Milliseconds(1), absl::Seconds(1)),
        [connection](WorldLink& self) { self.Watch(connection); });
}

void WorldLink::Reconnect() {
  After(world_.has_value() ? kPauseAfterBreak : kPauseBeforeFormed, [](WorldLink& self) { self.Connect(); });
}

void WorldLink::End(const absl::Status& why) {
  if (!ended_.ok()) return;
  ended_ = why;
  if (connection_ != nullptr) connection_->Close(absl::CancelledError(std::string(why.message())));
  if (forming_.has_value()) std::exchange(forming_, std::nullopt)->Set(why);
  for (auto& [number, request] : std::exchange(requests_, {})) {
    request.answer.Set(absl::Status(
        why.code(), absl::StrCat(Who(), " waits in vain for the key ", ShownKey(request.message), ": ", why.message())));
  }
}

}  // namespace pw::worker
