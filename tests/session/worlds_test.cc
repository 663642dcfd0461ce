// Tests the worlds of device runtimes (world.proto) with a real controller and the real link of a worker, in one process over sockets. In one
// test a host is a process of its own, which is killed.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/worker/world_link.h"

namespace pw {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using worker::WorldLink;
using worker::WorldOptions;

constexpr char kIsland[] = "i";

// The threads and sockets of one host's process.
struct Machine {
  SteadyClock clock;
  ThreadPool executor{"pw-test", 2};
  TimerQueue timers{&clock};
  net::AsioTransport transport{{}};
};

// A controller that listens at a socket.
class ServingController {
 public:
  ServingController(const std::string& address, absl::Duration grace) {
    controller::ClusterOptions options;
    options.host_grace = grace;
    options.heartbeat_limit = absl::Seconds(5);
    cluster_ = controller::ClusterImpl::Create(options, {&executor_, &timers_, &clock_});
    const absl::StatusOr<std::string> listening = cluster_->Listen(&transport_, address);
    EXPECT_TRUE(listening.ok()) << listening.status();
    address_ = listening.value_or("");
  }
  ~ServingController() {
    std::promise<void> stopped;
    cluster_->Stop("the test ends", false, [&] { stopped.set_value(); });
    stopped.get_future().wait();
  }
  const std::string& address() const { return address_; }

 private:
  SteadyClock clock_;
  ThreadPool executor_{"pw-controller", 1};
  std::shared_ptr<controller::ClusterImpl> cluster_;  // outlives the timers and the transport
  TimerQueue timers_{&clock_};
  net::AsioTransport transport_{{}};
  std::string address_;
};

// A host: its link, and the world that it forms.
class TestHost {
 public:
  TestHost(Machine* machine, const std::string& controller, const std::string& name, int hosts,
           const std::string& island = kIsland)
      : link_(WorldLink::Create(
            {&machine->executor, &machine->clock, &machine->timers, &machine->transport},
            WorldOptions{.controller = controller, .token = "", .host_name = name, .island = island, .hosts = hosts},
            [over = over_](const std::string& why) { over->set_value(why); })),
        world_(std::async(std::launch::async, [link = link_] { return link->Form(); })) {}
  ~TestHost() { link_->Stop("the test ends"); }

  device::World world() {
    absl::StatusOr<device::World> world = formed();
    EXPECT_TRUE(world.ok()) << world.status();
    return world.value_or(device::World());
  }
  absl::StatusOr<device::World> formed() { return world_.get(); }
  // Returns the reason why the world is over, when it is.
  std::string over() { return over_->get_future().get(); }
  WorldLink& link() { return *link_; }
  // Ends the connection as the end of the process does.
  void Leave() { link_->Stop("it leaves"); }

 private:
  const std::shared_ptr<std::promise<std::string>> over_ = std::make_shared<std::promise<std::string>>();
  const std::shared_ptr<WorldLink> link_;
  std::future<absl::StatusOr<device::World>> world_;
};

class WorldsTest : public ::testing::Test {
 protected:
  void Start(absl::Duration grace = absl::ZeroDuration(), const std::string& address = "tcp:127.0.0.1:0") {
    controller_ = std::make_unique<ServingController>(address, grace);
  }
  std::unique_ptr<TestHost> Host(const std::string& name, int hosts = 2, const std::string& island = kIsland) {
    return std::make_unique<TestHost>(&machine_, controller_->address(), name, hosts, island);
  }

  std::unique_ptr<ServingController> controller_;
  Machine machine_;
};

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

TEST_F(WorldsTest, HostsOfAnIslandAreNumberedByNameAndShareAStore) {
  Start();
  const auto b = Host("b"), a = Host("a"), other = Host("c", 1, "j");
  const device::World first = a->world(), second = b->world(), alone = other->world();
  EXPECT_EQ(first.node, 0);
  EXPECT_EQ(second.node, 1);
  EXPECT_EQ(first.nodes, 2);
  EXPECT_EQ(first.name, second.name);
  EXPECT_NE(first.name, alone.name);
  EXPECT_EQ(alone.nodes, 1);

  EXPECT_EQ(second.store->TryGet("k").status().code(), absl::StatusCode::kNotFound);
  auto waiting = std::async(std::launch::async, [&] { return second.store->Get("k", absl::Minutes(1)); });
  ASSERT_TRUE(first.store->Put("k", std::string("\0v", 2)).ok());
  EXPECT_EQ(*waiting.get(), std::string("\0v", 2));
  EXPECT_EQ(*second.store->TryGet("k"), std::string("\0v", 2));
  EXPECT_EQ(second.store->Put("k", "another").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(alone.store->TryGet("k").status().code(), absl::StatusCode::kNotFound) << "another world";
}

TEST_F(WorldsTest, AWaitEndsAtItsDeadlineAndNamesHostAndKey) {
  Start();
  const auto a = Host("a"), b = Host("b");
  const device::World world = a->world();
  const absl::Status late = world.store->Get("nccl/1", absl::Milliseconds(20)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(TextOf(late), HasSubstr("host 'a' of island 'i' waits in vain: no host has put a value under the key 'nccl/1'"));
}

TEST_F(WorldsTest, WhatIsTooLargeIsRefusedAndTheRestGoesOn) {
  Start();
  const auto a = Host("a", 1);
  const device::World world = a->world();
  EXPECT_EQ(world.store->Put("k", std::string(WorldLink::kMostFrameBytes, 'x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(world.store->Put("k", std::string(9 << 20, 'x')).code(), absl::StatusCode::kInvalidArgument) << "by the controller";
  const std::string large(8 << 20, 'x');
  ASSERT_TRUE(world.store->Put("k", large).ok());
  EXPECT_EQ(*world.store->Get("k", absl::Seconds(1)), large);
}

TEST_F(WorldsTest, AHostThatStopsWaitsForNothing) {
  Start();
  const auto alone = Host("a");
  alone->link().Stop("signal SIGTERM");
  EXPECT_THAT(TextOf(alone->formed().status()), HasSubstr("host 'a' of island 'i' stops: signal SIGTERM"));
  const auto b = Host("b", 1, "j");
  const device::World world = b->world();
  auto waiting = std::async(std::launch::async, [&] { return world.store->Get("k", absl::Minutes(1)); });
  b->link().Stop("signal SIGTERM");
  const absl::Status stopped = waiting.get().status();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kCancelled) << stopped;
  EXPECT_FALSE(world.store->Put("k", "v").ok());
}

TEST_F(WorldsTest, ALostHostEndsAllWaitsAndItsPlaceIsTakenInANewWorld) {
  Start();
  auto a = Host("a"), b = Host("b");
  const device::World old = a->world();
  b->world();
  ASSERT_TRUE(old.store->Put("here", "1").ok());
  auto waiting = std::async(std::launch::async, [&] { return old.store->Get("k", absl::Minutes(1)); });
  b->Leave();
  const absl::Status lost = waiting.get().status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      TextOf(lost),
      StartsWith("host 'a' of island 'i' waits in vain: the key 'k' gets no value any more: host 'b' of island 'i' is lost"));
  EXPECT_THAT(TextOf(old.store->Get("l", absl::Minutes(1)).status()), HasSubstr("the key 'l'")) << "at once";
  EXPECT_EQ(*old.store->TryGet("here"), "1");

  const auto again = Host("b");
  EXPECT_THAT(a->over(), HasSubstr("has lost a host, and another one has come"));
  EXPECT_FALSE(old.store->TryGet("here").ok());
  const auto anew = Host("a");
  const device::World world = anew->world();
  EXPECT_NE(world.name, old.name);
  EXPECT_EQ(again->world().name, world.name);
  EXPECT_EQ(world.store->TryGet("here").status().code(), absl::StatusCode::kNotFound) << "a key of the world before";
}

TEST_F(WorldsTest, AHostBeyondTheIslandsNumberWaitsForAPlace) {
  Start();
  auto a = Host("a"), b = Host("b");
  a->world();
  b->world();
  const auto spare = Host("c");
  b->Leave();
  EXPECT_THAT(a->over(), HasSubstr("has lost a host"));
  const auto anew = Host("a");
  EXPECT_EQ(anew->world().name, spare->world().name);
}

TEST_F(WorldsTest, ANewControllerKnowsNoWorldOfTheOneBefore) {
  Start();
  const auto a = Host("a", 1);
  a->world();
  const std::string address = controller_->address();
  controller_ = nullptr;
  Start(absl::ZeroDuration(), address);
  EXPECT_THAT(a->over(), HasSubstr("the controller does not keep the world of host 'a'"));
}

// Forks before any thread of this process exists, so the child may use all of it. The child joins the world, and never puts a value.
TEST(WorldsFaultTest, AHostThatIsKilledEndsTheWaitOfAnother) {
  const std::string address = absl::StrCat("unix:@pathways-worlds-test-", getpid());
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Machine machine;
    TestHost victim(&machine, address, "victim", 2);
    victim.formed().IgnoreError();
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  ServingController controller(address, absl::ZeroDuration());
  Machine machine;
  TestHost host(&machine, address, "a", 2);
  const device::World world = host.world();
  auto waiting = std::async(std::launch::async, [&] { return world.store->Get("pathways-cpu/world/1", absl::Minutes(1)); });
  EXPECT_EQ(world.store->TryGet("pathways-cpu/world/1").status().code(), absl::StatusCode::kNotFound);
  kill(child, SIGKILL);
  const absl::Status lost = waiting.get().status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_THAT(TextOf(lost), HasSubstr("host 'a' of island 'i' waits in vain"));
  EXPECT_THAT(TextOf(lost), HasSubstr("the key 'pathways-cpu/world/1'"));
  EXPECT_THAT(TextOf(lost), HasSubstr("host 'victim' of island 'i' is lost"));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace pw
