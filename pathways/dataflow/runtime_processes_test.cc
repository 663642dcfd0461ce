// Tests runtimes in separate processes, over real sockets.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/dataflow/testing/runtime_world.h"
#include "pathways/net/asio/asio_transport.h"

namespace pw::dataflow {
namespace {

using testing::HasSubstr;

// One host, within this process.
class RealHost {
 public:
  RealHost(HostId self, uint32_t hosts, const std::string& world, const Operators& operators) : operators_(operators) {
    auto address = [&](uint32_t h) { return absl::StrCat("unix:@", world, "-", h); };
    links_ = std::make_unique<TransportLinks>(&transport_, &strand_, TransportLinks::Options{.self = self, .incarnation = 3});
    for (uint32_t h = 0; h < hosts; ++h) links_->SetPeer(HostId(h), address(h));
    runtime_ = std::make_unique<Runtime>(Runtime::Environment{self, &strand_, &clock_, &timers_, links_.get(), &operators_},
                                         RuntimeKnobs{});
    auto listener = transport_.Listen(address(self.v), [this](std::unique_ptr<net::Connection> connection) {
      auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
      strand_.Post([this, shared] { links_->Accept(std::move(*shared)); });
    });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  ~RealHost() {
    listener_ = nullptr;
    Sync([&] {
      runtime_ = nullptr;
      links_ = nullptr;
    });
  }

  // Runs f on the strand and waits for it.
  template <class F>
  void Sync(F f) {
    auto done = std::make_shared<std::promise<void>>();
    strand_.Post([&f, done] {
      f();
      done->set_value();
    });
    done->get_future().wait();
  }
  Runtime& runtime() { return *runtime_; }

 private:
  const Operators operators_;
  SteadyClock clock_;
  TimerQueue timers_{&clock_};
  ThreadPool pool_{"dataflow", 1};
  Strand strand_{&pool_};
  net::AsioTransport transport_;
  std::unique_ptr<TransportLinks> links_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<Runtime> runtime_;
};

Operators SendOperators() {
  Operators operators;
  // Sends the tuple that it received, or 10 kB, to every shard of the next node.
  operators.Add("send", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    for (EdgeId out : shard.outputs()) {
                      for (uint32_t s = 0; s < shard.graph().destination(out).num_shards(); ++s)
                        shard.Send(out, s, TupleOf(std::string(10000, static_cast<char>('a' + shard.index() % 26))));
                    }
                    shard.Finish();
                  };
                  return op;
                }));
  operators.Add("never", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard&) {};
                  return op;
                }));
  return operators;
}

class Processes : public testing::Test {
 protected:
  static constexpr uint32_t kHosts = 4;

  // Children first: they are forked before this process has threads.
  void SetUp() override {
    world_ = absl::StrCat("pw-dataflow-test-", getpid());
    for (uint32_t h = 1; h < kHosts; ++h) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        RealHost host(HostId(h), kHosts, world_, SendOperators());
        while (true) pause();
      }
      children_[h] = child;
    }
    host_ = std::make_unique<RealHost>(HostId(0), kHosts, world_, SendOperators());
  }
  void TearDown() override {
    host_ = nullptr;
    for (const auto& [h, child] : children_) Kill(child);
  }
  static void Kill(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }

  // Two nodes on hosts 1 .. `last` with an all-to-all edge, and the result node here.
  std::future<absl::Status> StartOn(uint32_t last, const std::string& op, size_t* bytes) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    host_->Sync([&] {
      const auto where = std::make_shared<const Placement>(Placement::Uniform(HostId(1), last, 8));
      auto graph = Graph::Create({{"a", op, "", where},
                                  {"b", "send", "", where},
                                  {"result", kResultOp, "", std::make_shared<const Placement>(Placement::OnHost(HostId(0)))}},
                                 {{NodeId(0), NodeId(1), EdgeKind::kAllToAll}, {NodeId(1), NodeId(2), EdgeKind::kGather}});
      RunOptions options;
      options.on_tuple = [bytes](NodeId, uint32_t, Tuple tuple) { *bytes += tuple.size(); };
      options.on_done = [done](const absl::Status& status) { done->set_value(status); };
      auto id = host_->runtime().Install(*graph);
      if (!id.ok()) return done->set_value(id.status());
      host_->runtime().Start(*id, std::move(options));
    });
    return done->get_future();
  }

  std::string world_;
  std::map<uint32_t, pid_t> children_;
  std::unique_ptr<RealHost> host_;
};

TEST_F(Processes, RunGraphsTogether) {
  size_t bytes = 0;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(StartOn(3, "send", &bytes).get(), absl::OkStatus());
  EXPECT_EQ(bytes, 20u * 24 * 10000);
  host_->Sync([&] { EXPECT_EQ(host_->runtime().live_runs(), 0u); });
}

TEST_F(Processes, AKilledOneEndsTheRunsThatDependOnItAndNoOthers) {
  size_t bytes = 0;
  std::future<absl::Status> lost = StartOn(3, "never", &bytes);
  ASSERT_EQ(StartOn(3, "send", &bytes).get(), absl::OkStatus());
  Kill(children_[3]);
  const absl::Status status = lost.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("host 3"));
  EXPECT_EQ(StartOn(3, "send", &bytes).get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StartOn(2, "send", &bytes).get(), absl::OkStatus());
  children_.erase(3);
}

}  // namespace
}  // namespace pw::dataflow
