// The controller on real threads: several client threads, and others for workers and timers. Meant for ThreadSanitizer.
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

class ThreadedCluster : public ::testing::Test {
 protected:
  ThreadedCluster() {
    ClusterOptions options;
    options.expect_hosts = 1;
    options.heartbeat_limit = absl::Milliseconds(500);  // the timers have something to do
    cluster_ = ClusterImpl::Create(options, {&executor_, &timers_, &clock_});
    worker_.Join(&transport_, *cluster_->Listen(&transport_, "tcp:controller:0"));
    while (!OnStrand<bool>([&](auto done) { done(cluster_->formed()); })) {
    }
  }
  void TearDown() override {
    OnStrand<bool>([&](auto done) { cluster_->Stop("the test ends", false, [done] { done(true); }); });
  }

  // Runs `start` on the strand, and waits until it has called its argument.
  template <class T, class F>
  T OnStrand(F start) {
    auto promise = std::make_shared<std::promise<T>>();
    cluster_->Post([start, promise] { start([promise](T value) { promise->set_value(std::move(value)); }); });
    return promise->get_future().get();
  }

  // One client: passes an array `times` times through a program, and expects it back unchanged.
  void RunClient(int number, int times) {
    auto session =
        OnStrand<std::shared_ptr<Session>>([&](auto done) { done(*cluster_->OpenSession(absl::StrCat("client ", number))); });
    Session* s = session.get();
    const std::string text = absl::StrCat("c", number % 10, "--");
    auto info = OnStrand<std::shared_ptr<const ExecutableInfo>>([&](auto done) {
      CompileRequest request;
      request.program = Bytes::FromString(TestCluster::Toy("copy", 1, 1, 1).SerializeAsString());
      s->Compile(std::move(request), [done](auto compiled) { done(*compiled); });
    });
    const bool made = OnStrand<bool>([&](auto done) {
      const auto spec = TestCluster::Single(0, {1, 4});
      bool ok = s->MakeArray(1, spec, {{1, {buffers::DType::kU8, {1, 4}}, {0}}}).ok();
      ok &= s->StoreHostBuffer(1, Bytes::Copy(text)).ok();
      for (Handle h = 1; h <= static_cast<Handle>(times); ++h) {
        ExecuteRequest request;
        request.executable = info->handle;
        request.args = {h};
        request.results = {h + 1};
        ok &= s->Execute(request).ok() && s->Destruct({h}).ok();
      }
      done(ok);
    });
    EXPECT_TRUE(made);
    const Handle last = times + 1;
    const std::string fetched = OnStrand<std::string>([&](auto done) {
      s->CopyToHostBuffer(last, 7777, std::nullopt, [](absl::Status status) { EXPECT_TRUE(status.ok()) << status; });
      s->LookupHostBuffer(7777, [done](absl::StatusOr<Bytes> bytes) {
        done(bytes.ok() ? std::string(bytes->view()) : bytes.status().ToString());
      });
    });
    EXPECT_EQ(fetched, text);
    OnStrand<bool>([&](auto done) {
      session = nullptr;
      done(true);
    });
  }

  // The controller's clock stands still: no host is late, however busy the machine is.
  ManualClock clock_;
  SteadyClock timers_clock_;
  FakeWorker::Hub hub_;
  FakeWorker worker_{{"w0", "i0", 1}, &hub_};
  std::shared_ptr<ClusterImpl> cluster_;
  net::MemoryNetwork network_;
  ThreadPool executor_{"controller", 3};
  TimerQueue timers_{&timers_clock_};
  net::MemoryTransport transport_{&network_, &executor_, &timers_};
};

TEST_F(ThreadedCluster, ManyClientsAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back([this, i] { RunClient(i, 200); });
  std::atomic<bool> over = false;
  std::thread watcher([&] {
    while (!over) {
      const std::string json = OnStrand<std::string>([&](auto done) { cluster_->GetStatus([done](auto text) { done(*text); }); });
      EXPECT_NE(json.find("\"formed\""), std::string::npos);
    }
  });
  for (std::thread& client : clients) client.join();
  over = true;
  watcher.join();
}

}  // namespace
}  // namespace pw::controller
