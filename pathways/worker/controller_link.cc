#include "pathways/worker/controller_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/net/certificates.h"
#include "pathways/worker/metrics_page.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr int kProtocolVersion = 1;
constexpr size_t kMostEarlyPeers = 64;
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
        last_heard_(clock_->Now()) {}

  void SetConnection(net::Connection* connection) { connection_ = connection; }
  absl::Time last_heard() const { return last_heard_.load(); }

  void OnFrame(net::Frame frame) override {
    last_heard_.store(clock_->Now());
    auto batch = std::make_shared<v1::ToWorker>();
    if (!batch->ParseFromString(frame.header)) {
      return connection_->Close(absl::InvalidArgumentError("the controller sent a message that does not parse"));
    }
    bool more = !frame.payload.empty() || batch->reports_seen() > 0;
    for (const v1::Command& command : batch->commands()) {
      if (command.has_ping())
        Answer(command.ping());
      else
        more = true;
    }
    if (!more) return;
    Post([batch, payload = std::move(frame.payload)](ControllerLink* link, uint64_t generation) {
      link->Handle(generation, *batch, payload);
    });
  }
  void OnClosed(const absl::Status& reason) override {
    Post([reason](ControllerLink* link, uint64_t generation) { link->Lost(generation, reason); });
  }
  void OnBulkWritable() override {
    Post([](ControllerLink* link, uint64_t generation) {
      if (link->generation_ == generation && link->worker_ != nullptr) link->worker_->BulkWritable();
    });
  }

 private:
  void Answer(const v1::Ping& ping) {
    v1::FromWorker pong;
    pong.add_events()->mutable_pong()->set_sequence(ping.sequence());
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
  net::Connection* connection_ = nullptr;  // constant once delivery has begun
  std::atomic<absl::Time> last_heard_;
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
    if (!alive.expired() && worker_ != nullptr) worker_->Idle();
  });
}

ControllerLink::~ControllerLink() = default;

void ControllerLink::Start() {
  strand_->Post([this] { Connect(); });
}

void ControllerLink::GetMetrics(absl::AnyInvocable<void(std::string) &&> done) {
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), done = std::move(done)]() mutable {
    if (alive.expired()) return;
    MetricsPage page{.host = options_.host_name, .island = options_.island, .joined = worker_ != nullptr};
    if (worker_ != nullptr) {
      page.metrics = worker_->Metrics();
      page.health = worker_->Health();
    }
    std::move(done)(page.Text());
  });
}

void ControllerLink::Connect() {
  if (stopped_) return;
  environment_.transport->Connect(
      options_.controller, options_.connect_timeout,
      [this, alive = std::weak_ptr<bool>(alive_), strand = strand_](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
        strand->Post([this, alive, shared] {
          if (!alive.expired()) Connected(std::move(*shared));
        });
      });
}

void ControllerLink::Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  if (stopped_) return;
  if (absl::IsUnauthenticated(connection.status())) return Finish(connection.status());
  if (!connection.ok()) {
    if (!complained_) {
      PW_LOG_WARNING << "no controller at " << options_.controller << " yet (" << connection.status().message() << "); trying on";
    }
    complained_ = true;
    return Reconnect();
  }
  complained_ = false;
  if (absl::Status status = net::CheckServer(**connection, net::PeerProof::kController); !status.ok()) return Finish(status);
  connection_ = *std::move(connection);
  handler_ = std::make_unique<Handler>(this, ++generation_);
  handler_->SetConnection(connection_.get());
  silence_limit_ = options_.greeting_timeout;
  connection_->Start(handler_.get());
  connection_->Send(Hello().SerializeAsString());
  Watch(generation_);
}

v1::FromWorker ControllerLink::Hello() const {
  v1::FromWorker message;
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

void ControllerLink::Handle(uint64_t generation, const v1::ToWorker& batch, const Bytes& payload) {
  if (generation != generation_ || stopped_) return;
  for (const v1::Command& command : batch.commands()) HandleLinkCommand(command);
  if (generation != generation_ || stopped_) return;
  absl::Status status;
  if (worker_ != nullptr)
    status = worker_->Handle(batch, payload);
  else
    status = absl::FailedPreconditionError("the controller sent commands before its welcome");
  if (!status.ok()) connection_->Close(status);
}

void ControllerLink::HandleLinkCommand(const v1::Command& command) {
  if (command.has_welcome()) Welcomed(command.welcome());
  if (command.has_certificate()) {
    if (absl::Status status = ShowCertificate(command.certificate().chain()); !status.ok()) connection_->Close(status);
  }
  if (command.has_shutdown()) {
    PW_LOG_INFO << "the controller says to stop: " << command.shutdown().reason();
    if (worker_ != nullptr) return Finish(absl::OkStatus());
    Finish(absl::FailedPreconditionError(
        absl::StrCat("the controller at ", options_.controller, " does not take this worker: ", command.shutdown().reason())));
  }
}

void ControllerLink::Welcomed(const v1::Welcome& welcome) {
  if (worker_ != nullptr) return connection_->Close(absl::FailedPreconditionError("the controller welcomed this worker twice"));
  if (welcome.heartbeat_seconds() > 0)
    silence_limit_ = 3 * std::max(absl::Seconds(welcome.heartbeat_seconds()), kShortestHeartbeat);
  if (absl::Status status = ShowCertificate(welcome.certificate()); !status.ok()) return connection_->Close(status);
  Environment environment = environment_;
  environment.timers = timers_;
  worker_ = std::make_unique<Worker>(environment, connection_.get(), welcome);
  for (auto& peer : std::exchange(early_peers_, {})) worker_->peers().Accept(std::move(peer));
  PW_LOG_INFO << "joined the controller at " << options_.controller << " as host " << welcome.host() << " of island "
              << welcome.island() << " with " << environment_.runtime->devices().size() << " "
              << environment_.runtime->info().platform_name << " devices";
}

absl::Status ControllerLink::ShowCertificate(const std::string& chain) {
  if (options_.tls == nullptr || chain.empty()) return absl::OkStatus();
  return options_.tls->Show(chain, key_pem_);
}

void ControllerLink::AcceptPeer(std::unique_ptr<net::Connection> connection) {
  auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), shared] {
    if (alive.expired() || stopped_) return;
    if (worker_ != nullptr) return worker_->peers().Accept(std::move(*shared));
    if (early_peers_.size() < kMostEarlyPeers) early_peers_.push_back(std::move(*shared));
  });
}

// Drops the connection if there is no Worker: then no controller has admitted clients.
void ControllerLink::AcceptLane(std::unique_ptr<net::Connection> connection) {
  auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), shared] {
    if (!alive.expired() && !stopped_ && worker_ != nullptr) worker_->lanes().Accept(std::move(*shared));
  });
}

// Checks again when the silence limit would be reached, for as long as the connection lives.
void ControllerLink::Watch(uint64_t generation) {
  const absl::Duration silence = environment_.clock->Now() - handler_->last_heard();
  if (silence >= silence_limit_) {
    return connection_->Close(
        absl::UnavailableError(absl::StrCat("nothing heard from the controller at ", options_.controller, " for ",
                                            absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(1))))));
  }
  const absl::Duration wait = std::max(std::min(silence_limit_ - silence, absl::Seconds(1)), absl::Milliseconds(1));
  timers_->After(wait, strand_, [this, generation, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && generation == generation_ && connection_ != nullptr) Watch(generation);
  });
}

void ControllerLink::Lost(uint64_t generation, const absl::Status& reason) {
  if (generation != generation_ || connection_ == nullptr) return;
  const bool served = worker_ != nullptr;
  Drop();
  if (stopped_) return;
  PW_LOG_WARNING << (served ? "lost the controller at " : "was not admitted by the controller at ") << options_.controller << ": "
                 << reason.message();
  if (options_.exit_with_controller) return Finish(served ? absl::OkStatus() : reason);
  Reconnect();
}

void ControllerLink::Reconnect() {
  timers_->After(options_.retry_delay, strand_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) Connect();
  });
}

void ControllerLink::Drop() {
  worker_ = nullptr;  // before the connection that it sends through
  connection_ = nullptr;
  handler_ = nullptr;
  early_peers_.clear();
}

void ControllerLink::Finish(const absl::Status& status) {
  if (stopped_) return;
  stopped_ = true;
  ++generation_;
  strand_->Post(
      [this, status, alive = std::weak_ptr<bool>(alive_)] {  // not inside a command of the Worker being dropped
        if (alive.expired()) return;
        Drop();
        finished_(status);
      });
}

void ControllerLink::Stop(std::string reason, Task stopped) {
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), reason = std::move(reason), stopped = std::move(stopped)]() mutable {
    if (!alive.expired() && connection_ != nullptr && !stopped_) {
      v1::FromWorker goodbye;
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
