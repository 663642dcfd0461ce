#include "pathways/worker/controller_link.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/worker/metrics_page.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr int kProtocolVersion = 1;
constexpr size_t kMostEarlyPeers = 64;
constexpr int kMostSessions = 10000;                       // that Hello names
constexpr absl::Duration kPause = absl::Milliseconds(50);  // between two attempts to make a broken connection again
constexpr absl::Duration kShortestHeartbeat = absl::Milliseconds(10);

void Describe(const device::DeviceInfo& info, int64_t memory_limit, v1::Hello::Device* out) {
  out->set_local_hardware_id(info.local_hardware_id);
  out->set_kind(info.kind);
  out->set_debug_string(info.debug_string);
  out->set_to_string(info.to_string);
  for (const device::MemoryInfo& memory : info.memories) {
    auto* m = out->add_memories();
    m->set_kind(memory.kind);
    m->set_kind_id(memory.kind_id);
  }
  out->set_memory_limit_bytes(memory_limit);
  out->mutable_int_attributes()->insert(info.int_attributes.begin(), info.int_attributes.end());
  out->mutable_string_attributes()->insert(info.string_attributes.begin(), info.string_attributes.end());
  for (const auto& [name, values] : info.coordinate_attributes) {
    (*out->mutable_coordinate_attributes())[name].mutable_values()->Add(values.begin(), values.end());
  }
}

}  // namespace

class ControllerLink::Handler : public net::Connection::Handler {
 public:
  Handler(ControllerLink* link, uint64_t generation)
      : link_(link),
        generation_(generation),
        strand_(link->strand_),
        clock_(link->environment_.clock),
        alive_(link->alive_),
        last_heard_(absl::ToUnixNanos(clock_->Now())) {}

  void SetConnection(net::Connection* connection) { connection_ = connection; }
  absl::Time last_heard() const { return absl::FromUnixNanos(last_heard_.load()); }
  // From now on, pongs acknowledge received frames. The stream must outlive the connection.
  void SetStream(const net::ResumableLink* stream) { stream_.store(stream); }

  void OnFrame(net::Frame frame) override {
    last_heard_.store(absl::ToUnixNanos(clock_->Now()));
    auto batch = std::make_shared<v1::ToWorker>();
    if (!batch->ParseFromString(frame.header)) {
      return connection_->Close(absl::InvalidArgumentError("the controller sent a message that does not parse"));
    }
    bool more = !batch->beside() || batch->has_received();
    for (const v1::Command& command : batch->commands()) {
      if (command.has_ping())
        Answer(command.ping());
      else
        more = true;
    }
    if (!more) return;
    const size_t bytes = frame.header.size() + frame.payload.size();
    Post([batch, payload = std::move(frame.payload), bytes](ControllerLink* link, uint64_t generation) {
      link->Handle(generation, *batch, payload, bytes);
    });
  }
  void OnClosed(const absl::Status& reason) override {
    Post([reason](ControllerLink* link, uint64_t generation) { link->Lost(generation, reason); });
  }
  void OnBulkWritable() override {
    Post([](ControllerLink* link, uint64_t generation) {
      if (link->generation_ == generation && link->serves()) link->worker_->BulkWritable();
    });
  }

 private:
  void Answer(const v1::Ping& ping) {
    v1::FromWorker pong;
    pong.set_beside(true);
    pong.add_events()->mutable_pong()->set_sequence(ping.sequence());
    if (const net::ResumableLink* stream = stream_.load(); stream != nullptr) {
      const net::ResumableLink::Counts received = stream->received();
      pong.mutable_received()->set_urgent(received.urgent);
      pong.mutable_received()->set_bulk(received.bulk);
    }
    connection_->Send(pong.SerializeAsString());
  }
  template <class F>
  void Post(F f) {
    strand_->Post([link = link_, generation = generation_, alive = alive_, f = std::move(f)]() mutable {
      if (!alive.expired()) f(link, generation);
    });
  }

  ControllerLink* const link_;
  const uint64_t generation_;
  Executor* const strand_;
  Clock* const clock_;
  const std::weak_ptr<bool> alive_;
  net::Connection* connection_ = nullptr;                    // constant once delivery has begun
  std::atomic<const net::ResumableLink*> stream_ = nullptr;  // if it is resumable
  std::atomic<int64_t> last_heard_;                          // in nanoseconds: an atomic absl::Time would need libatomic
};

ControllerLink::ControllerLink(const Environment& environment, Strand* strand, Timers* timers, LinkOptions options,
                               Finished finished)
    : environment_(environment),
      strand_(strand),
      timers_(timers),
      options_(std::move(options)),
      probe_(options_.share_memory),
      finished_(std::move(finished)) {
  if (options_.tls != nullptr) {
    absl::StatusOr<std::string> key = net::NewKey();
    if (key.ok()) key_pem_ = *std::move(key);
  }
  strand_->SetIdleHook([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && worker_ != nullptr) worker_->Idle();  // also an orphan: memory that becomes free may be waited for
  });
}

ControllerLink::~ControllerLink() = default;

void ControllerLink::Start() {
  strand_->Post([this] { Connect(); });
}

void ControllerLink::GetMetrics(absl::AnyInvocable<void(std::string) &&> done) {
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), done = std::move(done)]() mutable {
    if (alive.expired()) return;
    MetricsPage page{.host = options_.host_name, .island = options_.island, .joined = serves()};
    if (worker_ != nullptr) {
      page.metrics = worker_->Metrics();
      page.health = worker_->Health();
    }
    std::move(done)(page.Text());
  });
}

void ControllerLink::Connect() {
  if (stopped_) return;
  attempt_began_ = environment_.clock->Now();
  if (orphaned_ && worker_->computes() && attempt_began_ - orphaned_since_ < controller_grace_ / 2) return Reconnect(kPause);
  environment_.transport->Connect(
      options_.controller, resuming() ? attempts_.Next() : options_.connect_timeout,
      [this, alive = std::weak_ptr<bool>(alive_), strand = strand_](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
        strand->Post([this, alive, shared] {
          if (!alive.expired()) Connected(std::move(*shared));
        });
      });
}

void ControllerLink::Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  if (stopped_) return;
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kController) : connection.status();
  if (resuming() && !status.ok()) return Unreachable(status);
  const bool hopeless = absl::IsUnauthenticated(status) || (connection.ok() && !status.ok());
  if (hopeless && !orphaned_) return Finish(status);
  if (!status.ok()) {
    if (!complained_) {
      PW_LOG_WARNING << "no controller at " << options_.controller << " yet (" << status.message() << "); trying on";
    }
    complained_ = true;
    return Reconnect(options_.retry_delay);
  }
  complained_ = false;
  connection_ = *std::move(connection);
  handler_ = std::make_unique<Handler>(this, ++generation_);
  handler_->SetConnection(connection_.get());
  asking_ = serves();
  early_frames_.clear();
  silence_limit_ = asking_ ? kAnswerTime : options_.greeting_timeout;
  connection_->Start(handler_.get());
  connection_->Send((asking_ ? Resume() : Hello()).SerializeAsString());
  Watch(generation_, environment_.clock->Now());
}

v1::FromWorker ControllerLink::Hello() const {
  v1::FromWorker message;
  message.set_beside(true);
  v1::Hello* hello = message.add_events()->mutable_hello();
  const device::RuntimeInfo& info = environment_.runtime->info();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_host_name(options_.host_name);
  hello->set_island(options_.island);
  hello->set_data_address(options_.data_address);
  hello->set_lane_address(options_.lane_address);
  hello->set_pid(options_.pid);
  hello->set_platform_name(info.platform_name);
  hello->set_platform_version(info.platform_version);
  hello->set_stablehlo_version(info.stablehlo_version);
  hello->set_xla_version(info.xla_version);
  hello->set_process_address(info.process_address);
  hello->set_token(options_.token);
  hello->set_own_end(connection_->own_end());
  hello->set_epoch(epoch_);
  hello->set_last_launch(worker_ == nullptr ? last_launch_ : std::max(last_launch_, worker_->last_launch()));
  if (orphaned_) {
    v1::Former* former = hello->mutable_former();
    *former->mutable_place() = place_;
    former->set_arrays(worker_->arrays());
    former->set_programs(static_cast<int64_t>(worker_->KeepPrograms()->size()));
    for (SessionId session : worker_->HeldSessions()) {
      if (former->sessions_size() < kMostSessions) former->add_sessions(session.v);
    }
  }
  if (!key_pem_.empty()) {
    if (absl::StatusOr<std::string> key = net::PublicKeyOf(key_pem_); key.ok()) hello->set_public_key(*std::move(key));
  }
  if (probe_.valid()) {
    net::WriteName(probe_.name(), hello->mutable_probe()->mutable_memory());
    hello->mutable_probe()->set_secret(probe_.secret());
  }
  const std::vector<device::DeviceInfo>& devices = environment_.runtime->devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    int64_t limit = environment_.limits.device_memory_bytes;
    if (limit == 0) {
      if (absl::StatusOr<device::MemoryUsage> usage = environment_.runtime->Memory(static_cast<int>(i)); usage.ok())
        limit = usage->limit_bytes;
    }
    Describe(devices[i], limit, hello->add_devices());
  }
  return message;
}

v1::FromWorker ControllerLink::Resume() const {
  v1::FromWorker message;
  message.set_beside(true);
  v1::Resume* resume = message.add_events()->mutable_resume();
  resume->set_host(host_);
  resume->set_key(key_);
  resume->set_token(options_.token);
  resume->set_own_end(connection_->own_end());
  resume->set_epoch(epoch_);
  resume->mutable_received()->set_urgent(stream_->received().urgent);
  resume->mutable_received()->set_bulk(stream_->received().bulk);
  return message;
}

// Counts a frame of the stream, and takes in its acknowledgement.
absl::Status ControllerLink::Count(const v1::ToWorker& batch, size_t bytes) {
  if (batch.has_received()) {
    PW_RETURN_IF_ERROR(stream_->Acknowledge({batch.received().urgent(), batch.received().bulk()}));
    worker_->BulkWritable();
  }
  if (!batch.beside()) stream_->Receive(batch.bulk() ? net::Lane::kBulk : net::Lane::kUrgent, bytes);
  return absl::OkStatus();
}

void ControllerLink::Handle(uint64_t generation, const v1::ToWorker& batch, const Bytes& payload, size_t bytes) {
  if (generation != generation_ || stopped_) return;
  for (const v1::Command& command : batch.commands()) {
    HandleLinkCommand(command);
    if (generation != generation_ || stopped_) return;
  }
  // An acknowledgement may overtake the welcome, which waits for the end of the controller's burst of work: nothing was received yet.
  if (batch.beside() && (!batch.has_received() || !serves() || asking_)) return;
  if (asking_ && batch.bulk()) return early_frames_.push_back({batch, payload, bytes});
  absl::Status status;
  if (!serves() || asking_) {
    status = absl::FailedPreconditionError("the controller sent commands before its welcome");
  } else {
    status = Count(batch, bytes);
    if (status.ok()) status = worker_->Handle(batch, payload);
  }
  if (!status.ok()) connection_->Close(status);
}

void ControllerLink::HandleLinkCommand(const v1::Command& command) {
  if (command.has_welcome()) Welcomed(command.welcome());
  if (command.has_resumed()) Resumed(command.resumed());
  if (command.has_given_up()) GivenUp(command.given_up());
  if (command.has_new_key() && serves()) ShowNewKey();
  if (command.has_certificate()) {
    if (!next_key_pem_.empty()) key_pem_ = std::exchange(next_key_pem_, "");
    if (absl::Status status = ShowCertificate(command.certificate().chain()); !status.ok()) connection_->Close(status);
  }
  if (command.has_shutdown()) {
    PW_LOG_INFO << "the controller says to stop: " << command.shutdown().reason();
    if (serves() && !asking_) return Finish(absl::OkStatus());
    Finish(absl::FailedPreconditionError(
        absl::StrCat("the controller at ", options_.controller, " does not take this worker: ", command.shutdown().reason())));
  }
}

void ControllerLink::Welcomed(const v1::Welcome& welcome) {
  if (serves()) return connection_->Close(absl::FailedPreconditionError("the controller welcomed this worker twice"));
  if (welcome.epoch() != 0 && welcome.epoch() < epoch_) {
    return connection_->Close(absl::UnavailableError(
        absl::StrCat("it has epoch ", welcome.epoch(), ", and this host belongs to a later controller, with epoch ", epoch_)));
  }
  if (welcome.heartbeat_seconds() > 0)
    silence_limit_ = 3 * std::max(absl::Seconds(welcome.heartbeat_seconds()), kShortestHeartbeat);
  host_ = welcome.host();
  key_ = welcome.key();
  if (!key_.empty()) silence_limit_ = 0.75 * silence_limit_;
  silence_limit_served_ = silence_limit_;
  patience_ = std::max(kPatience, absl::Seconds(std::clamp(welcome.grace_seconds(), 0.0, 1e9)));
  next_key_pem_.clear();  // of an earlier controller, which did not certify it
  if (absl::Status status = ShowCertificate(welcome.certificate()); !status.ok()) return connection_->Close(status);
  std::optional<Holdings> holdings;
  std::shared_ptr<Functions::Kept> python_processes;
  if (orphaned_ && welcome.kept_sessions_size() > 0) {
    std::set<SessionId> sessions;
    for (uint64_t session : welcome.kept_sessions()) sessions.insert(SessionId(session));
    holdings = worker_->TakeHoldings(sessions);
    for (SessionId cut : holdings->cut) sessions.erase(cut);
    python_processes = worker_->TakePythonProcesses(sessions);
  }
  DropWorker();
  incarnation_ = welcome.incarnation();
  epoch_ = welcome.epoch();
  controller_grace_ = absl::Seconds(std::clamp(welcome.controller_grace_seconds(), 0.0, 1e9));
  place_ = welcome.place();
  MakeWorker(welcome, holdings.has_value() ? &*holdings : nullptr, std::move(python_processes));
  if (kept_ != nullptr) ForgetAfterGrace();
}

void ControllerLink::MakeWorker(const v1::Welcome& welcome, Holdings* holdings,
                                std::shared_ptr<Functions::Kept> python_processes) {
  Environment environment = environment_;
  environment.timers = timers_;
  environment.kept_programs = kept_;
  environment.holdings = holdings;
  environment.python_processes = std::move(python_processes);
  stream_ = std::make_unique<net::ResumableLink>(connection_.get(), !key_.empty());
  if (stream_->resumable()) handler_->SetStream(stream_.get());
  worker_ = std::make_unique<Worker>(environment, stream_.get(), welcome);
  for (auto& peer : std::exchange(early_peers_, {})) worker_->peers().Accept(std::move(peer));
  PW_LOG_INFO << "joined the controller at " << options_.controller << " as host " << welcome.host() << " of island "
              << welcome.island() << " with " << environment_.runtime->devices().size() << " "
              << environment_.runtime->info().platform_name << " devices";
}

absl::Status ControllerLink::ShowCertificate(const std::string& chain) {
  if (options_.tls == nullptr || chain.empty()) return absl::OkStatus();
  return options_.tls->Show(chain, key_pem_);
}

void ControllerLink::ShowNewKey() {
  if (key_pem_.empty()) return;
  absl::StatusOr<std::string> key = net::NewKey();
  absl::StatusOr<std::string> shown = key.ok() ? net::PublicKeyOf(*key) : key.status();
  if (!shown.ok()) {
    PW_LOG_WARNING << "this host keeps its key, since it cannot make a new one: " << shown.status().message();
    return;
  }
  next_key_pem_ = *std::move(key);
  v1::FromWorker message;
  message.add_events()->mutable_public_key()->set_der(*std::move(shown));
  stream_->Send(message.SerializeAsString(), {}, net::Lane::kUrgent);
}

void ControllerLink::AcceptPeer(std::unique_ptr<net::Connection> connection) {
  auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), shared] {
    if (alive.expired() || stopped_) return;
    if (serves()) return worker_->peers().Accept(std::move(*shared));
    if (early_peers_.size() < kMostEarlyPeers) early_peers_.push_back(std::move(*shared));
  });
}

// Drops the connection if there is no Worker, or an orphan: then no controller has admitted clients.
void ControllerLink::AcceptLane(std::unique_ptr<net::Connection> connection) {
  auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), shared] {
    if (!alive.expired() && !stopped_ && serves()) worker_->lanes().Accept(std::move(*shared));
  });
}

// Checks again when the silence limit would be reached, for as long as the connection lives.
void ControllerLink::Watch(uint64_t generation, absl::Time due) {
  const absl::Time now = environment_.clock->Now();
  const absl::Duration silence = now - handler_->last_heard();
  // If this comes late, the process was stopped or waited for a processor: messages may have come that were not read yet.
  const bool late = now - due > silence_limit_ / 4;
  if (silence >= silence_limit_ && !late) {
    return connection_->Close(
        absl::UnavailableError(absl::StrCat("nothing heard from the controller at ", options_.controller, " for ",
                                            absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(1))))));
  }
  const absl::Duration left = late ? absl::Seconds(1) : silence_limit_ - silence;
  const absl::Duration wait = std::max(std::min(left, absl::Seconds(1)), absl::Milliseconds(1));
  timers_->After(wait, strand_, [this, generation, due = now + wait, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && generation == generation_ && connection_ != nullptr) Watch(generation, due);
  });
}

void ControllerLink::Lost(uint64_t generation, const absl::Status& reason) {
  if (generation != generation_ || connection_ == nullptr) return;
  const bool asked = std::exchange(asking_, false);
  const bool broken = serves() && !stopped_ && absl::IsUnavailable(reason);
  if (broken && stream_->resumable()) {
    ++generation_;  // delivered frames that are not handled yet come again
    stream_->Lose();
    connection_ = nullptr;
    handler_ = nullptr;
    if (asked) return Unreachable(reason);
    PW_LOG_WARNING << "the connection to the controller at " << options_.controller
                   << " is lost, and made again: " << reason.message();
    broken_since_ = environment_.clock->Now();
    refused_since_ = absl::InfiniteFuture();
    attempts_ = {};
    return Connect();
  }
  if (broken) {
    return BecomeOrphan(absl::StrCat("lost the controller at ", options_.controller, ": ", reason.message()),
                        options_.retry_delay);
  }
  const bool served = serves(), orphaned = orphaned_;
  if (orphaned && !stopped_) {
    DropConnection();
  } else {
    Drop();
  }
  if (stopped_) return;
  PW_LOG_WARNING << (served ? "lost the controller at " : "was not admitted by the controller at ") << options_.controller << ": "
                 << reason.message();
  if (served) ForgetAfterGrace();
  if (options_.exit_with_controller && !orphaned) return Finish(served ? absl::OkStatus() : reason);
  Reconnect(options_.retry_delay);
}

void ControllerLink::Unreachable(const absl::Status& reason) {
  const absl::Time now = environment_.clock->Now();
  refused_since_ = net::NobodyListens(reason) ? std::min(refused_since_, attempt_began_) : absl::InfiniteFuture();
  if (now - refused_since_ >= std::max(kRefusedFor, controller_grace_))
    return StartOver(absl::StrCat("the controller at ", options_.controller, " has ended: nobody listens there"));
  if (now - broken_since_ >= patience_) {
    return StartOver(absl::StrCat("the connection to the controller at ", options_.controller, " could not be made again within ",
                                  absl::FormatDuration(patience_), ": ", reason.message()));
  }
  if (stream_->kept_bytes() > kMostKeptBytes) {
    return StartOver(absl::StrCat("the connection to the controller at ", options_.controller, " is broken, and ",
                                  stream_->kept_bytes() >> 20, " MiB wait for it, more than the limit of ", kMostKeptBytes >> 20,
                                  " MiB"));
  }
  Reconnect(kPause);
}

void ControllerLink::Resumed(const v1::Resumed& resumed) {
  if (!std::exchange(asking_, false))
    return connection_->Close(absl::FailedPreconditionError("the controller resumed a connection that was not broken"));
  const absl::Status status = stream_->Resume(connection_.get(), {resumed.received().urgent(), resumed.received().bulk()});
  if (!status.ok())
    return StartOver(absl::StrCat("the controller at ", options_.controller, " breaks the protocol: ", status.message()));
  silence_limit_ = silence_limit_served_;
  handler_->SetStream(stream_.get());
  PW_LOG_INFO << "the connection to the controller at " << options_.controller << " is back after "
              << absl::FormatDuration(absl::Trunc(environment_.clock->Now() - broken_since_, absl::Milliseconds(1)));
  stream_->TellAgain();
  worker_->BulkWritable();
  const uint64_t generation = generation_;
  for (const EarlyFrame& early : std::exchange(early_frames_, {})) Handle(generation, early.batch, early.payload, early.bytes);
}

void ControllerLink::StartOver(absl::string_view why) {
  PW_LOG_WARNING << why << ". This worker frees everything, and joins anew";
  ++generation_;
  Drop();
  ForgetAfterGrace();
  if (options_.exit_with_controller) return Finish(absl::OkStatus());
  Reconnect(options_.retry_delay);
}

void ControllerLink::GivenUp(const v1::GivenUp& answer) {
  if (serves() && answer.incarnation() != incarnation_) {
    return BecomeOrphan(absl::StrCat("another controller answers at ", options_.controller), kPause);
  }
  StartOver(absl::StrCat("the controller at ", options_.controller, " does not keep this host any more: ", answer.reason()));
}

void ControllerLink::BecomeOrphan(absl::string_view why, absl::Duration pause) {
  if (controller_grace_ <= absl::ZeroDuration()) return StartOver(why);
  PW_LOG_WARNING << why << ". This worker keeps everything for " << absl::FormatDuration(controller_grace_)
                 << ", and waits for another controller";
  ++generation_;
  stream_->Abandon();
  DropConnection();
  orphaned_ = true;
  worker_->BeginNoMoreCalls();
  orphaned_since_ = environment_.clock->Now();
  ForgetAfterGrace();
  Reconnect(pause);
}

void ControllerLink::ForgetAfterGrace() {
  timers_->After(controller_grace_, strand_, [this, time = ++forgetting_, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && !stopped_ && time == forgetting_) GraceIsOver();
  });
}

void ControllerLink::GraceIsOver() {
  kept_ = nullptr;
  if (serves()) return worker_->ForgetKeptPrograms();
  epoch_ = 0;
  if (!orphaned_) return;
  PW_LOG_WARNING << "no controller at " << options_.controller << " has taken this worker within "
                 << absl::FormatDuration(controller_grace_) << ": it frees everything, and joins as a new host";
  DropWorker();
  kept_ = nullptr;
  if (connection_ == nullptr && options_.exit_with_controller) Finish(absl::OkStatus());
}

// Keeps what may outlive the Worker.
void ControllerLink::DropWorker() {
  if (worker_ == nullptr) return;
  last_launch_ = std::max(last_launch_, worker_->last_launch());
  if (controller_grace_ > absl::ZeroDuration()) kept_ = worker_->KeepPrograms();
  if (orphaned_) worker_->Abandon(absl::UnavailableError("the controller of this computation has ended"));
  worker_ = nullptr;  // before the stream that it sends to
  stream_ = nullptr;
  orphaned_ = false;
}

void ControllerLink::Reconnect(absl::Duration pause) {
  timers_->After(pause, strand_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) Connect();
  });
}

void ControllerLink::Drop() {
  DropConnection();  // before the stream, which its handler reads
  DropWorker();
  early_peers_.clear();
}

void ControllerLink::DropConnection() {
  if (stream_ != nullptr) stream_->Lose();
  connection_ = nullptr;
  handler_ = nullptr;
  asking_ = false;
  early_frames_.clear();
}

void ControllerLink::Finish(const absl::Status& status) {
  if (stopped_) return;
  stopped_ = true;
  ++generation_;
  strand_->Post([this, status, alive = std::weak_ptr<bool>(alive_)] {  // not inside a command of the Worker being dropped
    if (alive.expired()) return;
    Drop();
    finished_(status);
  });
}

void ControllerLink::Stop(std::string reason, Task stopped) {
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), reason = std::move(reason), stopped = std::move(stopped)]() mutable {
    if (!alive.expired() && connection_ != nullptr && !stopped_) {
      v1::FromWorker goodbye;
      goodbye.set_beside(true);
      goodbye.add_events()->mutable_goodbye()->set_reason(reason);
      connection_->Send(goodbye.SerializeAsString());
      connection_->Close(absl::CancelledError(reason));
    }
    stopped_ = true;
    ++generation_;
    Drop();
    std::move(stopped)();
  });
}

}  // namespace pw::worker
