// Tests the end of a RemoteCluster with threads and a network of its own. tests/session tests what it asks of a controller.
#include "pathways/client/remote_cluster.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/asio/asio_transport.h"

namespace pw::client {
namespace {

TEST(RemoteClusterTest, EndSessionsEndsThoseThatWaitForAController) {
  std::atomic<int> answers = 0;
  for (int round = 0; round < 20; ++round) {
    // As in pathways-agent. They are destroyed at once after EndSessions, in the reverse order.
    SteadyClock clock;
    std::unique_ptr<RemoteCluster> cluster;
    ThreadPool executor("test", 1);
    Strand strand(&executor);
    net::AsioTransport transport({.retry_connects = false});
    TimerQueue timers(&clock);
    cluster = std::make_unique<RemoteCluster>(RemoteCluster::Options{.controller = "127.0.0.1:1"},  // nobody listens there
                                              Link::Environment{&transport, &strand, &timers, &clock});
    absl::Status opened, answered;
    cluster->Post([&] {
      cluster->OpenSession({.description = "a program"}, [&](absl::StatusOr<std::shared_ptr<session::Session>> session) {
        opened = session.status();
        ++answers;
      });
      cluster->GetStatus([&](absl::StatusOr<std::string> status) {
        answered = status.status();
        ++answers;
      });
    });
    cluster->EndSessions();
    EXPECT_EQ(answers, 2 * (round + 1));
    EXPECT_EQ(opened.code(), absl::StatusCode::kCancelled) << opened;
    EXPECT_EQ(answered.code(), absl::StatusCode::kCancelled) << answered;
  }
}

}  // namespace
}  // namespace pw::client
