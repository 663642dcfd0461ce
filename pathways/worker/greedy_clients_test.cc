// Tests that a client's requests take neither a host's memory nor its threads from others (docs/security.md).
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"
#include "pathways/worker/worker.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;

TEST(GreedyClients, SessionsTakeTurnsToHaveProgramsCompiled) {
  WorkerHarness w;
  std::vector<uint64_t> order;
  const auto compiled = [&] {
    for (const auto& [id, unused] : w.connection.compiled) {
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
  };
  for (uint64_t id : {1, 2, 3}) w.Compile(id, kAdd, {0, 1}, 1);
  w.Compile(4, kAdd, {0, 1}, 2);
  while (w.compile_executor.RunOne()) {
    w.executor.RunUntilIdle();
    compiled();
  }
  EXPECT_THAT(order, ElementsAre(1, 4, 2, 3));
}

TEST(GreedyClients, ProgramsOfAClientThatHasGoneAreNotCompiled) {
  WorkerHarness w;
  w.Compile(1, kAdd, {0, 1}, 1);
  w.Compile(2, kAdd, {0, 1}, 2);
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_EQ(FromProto(w.connection.compiled.at(1).status()).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(FromProto(w.connection.compiled.at(2).status()).ok());
}

}  // namespace
}  // namespace pw::worker
