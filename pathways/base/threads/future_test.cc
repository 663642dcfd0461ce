#include "pathways/base/threads/future.h"

#include <atomic>
#include <string>

#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"

namespace pw {
namespace {

TEST(FutureTest, CallbacksBeforeAndAfterTheValueBothRun) {
  Promise<int> promise;
  Future<int> future = promise.future();
  int sum = 0;
  future.OnReady([&](const absl::StatusOr<int>& v) { sum += *v; });
  EXPECT_FALSE(future.ready());
  promise.Set(20);
  future.OnReady([&](const absl::StatusOr<int>& v) { sum += *v + 1; });
  EXPECT_EQ(sum, 41);
}

TEST(FutureTest, DroppedPromiseIsAnErrorNotAHang) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
  }
  ASSERT_TRUE(future.ready());
  EXPECT_EQ(future.value().status().code(), absl::StatusCode::kCancelled);
}

TEST(FutureTest, ErrorsFlowLikeValues) {
  Promise<std::string> promise;
  Future<std::string> future = promise.future();
  promise.Set(absl::InternalError("boom"));
  EXPECT_EQ(future.value().status().message(), "boom");
}

TEST(FutureTest, RunsOnTheNamedExecutor) {
  std::atomic<int> got = 0;
  {
    ThreadPool pool("test", 1);
    Promise<int> promise;
    promise.future().OnReady(&pool, [&](const absl::StatusOr<int>& v) { got = *v; });
    promise.Set(7);
  }
  EXPECT_EQ(got, 7);
}

}  // namespace
}  // namespace pw
