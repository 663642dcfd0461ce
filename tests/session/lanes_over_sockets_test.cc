// Tests lanes over real sockets and threads: a controller, a worker, and a program that uses client::Client, wired as in bin/. On TCP they are
// encrypted ("tls") or TLS is off ("tcp").
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "pathways/base/secret.h"
#include "pathways/base/threads/await.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/client/client.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/identity/token_file.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/session/service.h"
#include "pathways/worker/controller_link.h"

namespace pw::session {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr size_t kBytes = 16 << 20;

// Destroyed in reverse order, as in bin/.
class Processes {
 public:
  explicit Processes(const std::string& listen)
      : identity_(listen == "tls" ? *identity::ClusterIdentity::Open(folder_, &wall_clock_) : nullptr) {
    credentials_.tls = listen == "tcp" ? "off" : "on";
    controller::ClusterOptions cluster;
    cluster.identity = identity_.get();
    cluster_ = controller::ClusterImpl::Create(cluster, {&controller_pool_, &timers_, &clock_});
    SessionService::Options options;
    options.make_key = RandomKey;
    options.identity = identity_.get();
    service_ = SessionService::Create(std::move(options), {cluster_.get(), &timers_});
    worker::LinkOptions link;
    if (identity_ != nullptr) {
      link.token = *identity_->CreateToken({"rack1", identity::Role::kWorker, absl::InfiniteFuture(), 1});
      link.tls = worker_tls_;
      credentials_.token_file = folder_ + "/ada.token";
      const std::string ada = *identity_->CreateToken({"ada"});
      EXPECT_TRUE(
          identity::WritePrivateFile(credentials_.token_file, identity::ToText({"here", identity_->authority(), ada})).ok());
    }
    const std::string workers = *cluster_->Listen(&controller_transport_, Address(listen, "workers"));
    sessions = *service_->Listen(&controller_transport_, Address(listen, "sessions"));
    peers_ = *transport_.Listen(Address(listen, "peers"), [this](auto connection) { link_->AcceptPeer(std::move(connection)); });
    lanes_ = *transport_.Listen(Address(listen, "lanes"), [this](auto connection) { link_->AcceptLane(std::move(connection)); });
    worker::Environment environment;
    environment.runtime = &runtime_;
    environment.strand = &strand_;
    environment.clock = &clock_;
    environment.compile_pool = &worker_pool_;
    environment.compile_cache = std::make_shared<worker::CompileCache>("", 0);
    environment.transport = &transport_;
    environment.next_launch_id = &launch_id_;
    link.controller = workers;
    link.host_name = "host";
    link.island = "island";
    link.data_address = peers_->address();
    link.lane_address = lanes_->address();
    link_ = std::make_unique<worker::ControllerLink>(environment, &strand_, &timers_, link, [](const absl::Status&) {});
    link_->Start();
  }
  ~Processes() {
    cluster_->Post([this] { service_->Stop(absl::OkStatus()); });
    Wait([this](Task done) { link_->Stop("the test ends", std::move(done)); });
    Wait([this](Task done) { cluster_->Stop("the test ends", false, std::move(done)); });
  }

  // A program that starts before the worker has joined tries again.
  std::unique_ptr<client::Client> Connect() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      auto client = client::Client::Connect({.controller = sessions, .description = "a test", .credentials = credentials_});
      if (client.ok()) return *std::move(client);
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << client.status();
      return nullptr;
    }
  }
  int64_t BytesThroughController() {
    int64_t bytes = 0;
    Wait([&](Task done) {
      cluster_->Post([&, done = std::move(done)]() mutable {
        bytes = cluster_->fabric().array_bytes();
        std::move(done)();
      });
    });
    return bytes;
  }

  std::string sessions;

 private:
  static std::string Address(const std::string& listen, const std::string& name) {
    return listen != "unix" ? "tcp:127.0.0.1:0" : absl::StrCat("unix:@pw-lanes-", ::getpid(), "-", name);
  }
  template <class F>
  static void Wait(F start) {
    std::promise<void> done;
    start([&done] { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "pw_lanes_over_sockets_", ::getpid());
  WallClock wall_clock_;
  const std::unique_ptr<identity::ClusterIdentity> identity_;  // null: there are no tokens
  const std::shared_ptr<net::Tls> worker_tls_ = identity_ == nullptr ? nullptr : *net::Tls::Create(identity_->authority());
  identity::CredentialOptions credentials_;  // the program's
  SteadyClock clock_;
  std::shared_ptr<controller::ClusterImpl> cluster_;
  std::shared_ptr<SessionService> service_;
  ThreadPool controller_pool_{"controller", 1}, worker_pool_{"worker", 1};
  device::SimulatedRuntime runtime_{{.devices = 2, .executor = &worker_pool_}};
  Strand strand_{&worker_pool_};
  int launch_id_ = 0;
  net::AsioTransport controller_transport_{{.tls = identity_ == nullptr ? nullptr : identity_->tls()}},
      transport_{{.tls = worker_tls_}};
  TimerQueue timers_{&clock_};
  std::unique_ptr<net::Listener> peers_, lanes_;
  std::unique_ptr<worker::ControllerLink> link_;
};

class LanesOverSocketsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LanesOverSocketsTest, LargeArraysGoToTheHostAndComeBackPastTheController) {
  Processes processes(GetParam());
  auto client = processes.Connect();
  ASSERT_NE(client, nullptr);
  std::string text(kBytes, 0);
  for (size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>((i * 131 + i / 4099) % 256);
  const Bytes data = Bytes::Copy(text);
  const auto& devices = client->cluster().devices;
  const buffers::Sharding both = buffers::Sharding::Replicated({devices[0].id, devices[1].id}, "");
  const buffers::ArraySpec spec{buffers::DType::kU8, {static_cast<int64_t>(kBytes)}, both};
  std::vector<client::Array> arrays;
  for (int i = 0; i < 3; ++i) arrays.push_back(client->Put(spec, data));
  for (const client::Array& array : arrays) {
    const absl::StatusOr<Bytes> back = Await(client->Fetch(array));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->view() == data.view());
  }
  EXPECT_EQ(processes.BytesThroughController(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, LanesOverSocketsTest, ::testing::Values("tcp", "tls", "unix"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pw::session
