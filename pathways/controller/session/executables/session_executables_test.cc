#include "pathways/controller/session/executables/session_executables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;

TEST(SessionExecutablesTest, HostsLearnWhoseTurnItIsToCompile) {
  TestCluster t(1, 1);
  const session::NewSession wanted[] = {{.description = "ada's", .user = "ada"},
                                        {.description = "an operator's", .user = "olga", .is_operator = true},
                                        {"the controller's user's"}};
  for (const session::NewSession& one : wanted) {
    auto opened = t.Await<std::shared_ptr<Session>>([&](auto done) { t.cluster->OpenSession(one, std::move(done)); });
    ASSERT_TRUE(opened.ok()) << opened.status();
    t.session = *opened;
    ASSERT_TRUE(t.Compile(TestCluster::Toy("f", 1, 1, 1), TestCluster::Devices(0, 1)).ok());
  }
  std::vector<std::string> users;
  for (const Command& command : t.workers[0]->log) {
    if (command.has_compile()) users.push_back(command.compile().user());
  }
  EXPECT_THAT(users, ElementsAre("ada", "", "")) << "operators' sessions have turns of their own";
}

}  // namespace
}  // namespace pw::controller
