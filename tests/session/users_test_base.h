// UsersTest: a controller with an identity and four users, each with a token: ada and bob (users), olga (an operator), rack1 (a worker).
#pragma once

#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/identity/cluster_identity.h"
#include "tests/session/served_cluster.h"

namespace pw::session {

class UsersTest : public ::testing::Test {
 protected:
  UsersTest() {
    using identity::Role;
    for (const auto& [user, role] :
         {std::pair{"ada", Role::kUser}, {"bob", Role::kUser}, {"olga", Role::kOperator}, {"rack1", Role::kWorker}})
      tokens_[user] = *identity_->CreateToken({user, role});
    t_.network.SetProofOfAccepted(net::PeerProof::kStranger);
  }

  // Returns a client with the token of this user; empty: without a token.
  std::unique_ptr<client::RemoteCluster> Door(const std::string& user) {
    client::RemoteCluster::Options options;
    options.controller = t_.service_address;
    options.retry = false;
    options.token = user.empty() ? "" : tokens_.at(user);
    options.say = [this](const std::string& line) { said_.push_back(line); };
    return std::make_unique<client::RemoteCluster>(options,
                                                   client::Link::Environment{&t_.cut, &t_.client_strand, &t_.timers, &t_.clock});
  }

  WallClock clock_;
  const std::string folder_ =
      absl::StrCat(::testing::TempDir(), "pw_", ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name(), "_",
                   ::getpid(), "_", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::unique_ptr<identity::ClusterIdentity> identity_ = *identity::ClusterIdentity::Open(folder_, &clock_);
  static controller::ClusterOptions With(identity::ClusterIdentity* identity) {
    controller::ClusterOptions options;
    options.identity = identity;
    return options;
  }
  ServedCluster t_{1, 4, absl::Minutes(10), With(identity_.get())};
  std::map<std::string, std::string> tokens_;
  std::vector<std::string> said_;  // lines for the users
};

}  // namespace pw::session
