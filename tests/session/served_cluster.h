// ServedCluster: a controller with fake workers, its session service, and a client, in one thread and one network in memory. Nothing
// happens outside Run and its callers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/threads/strand.h"
#include "pathways/client/remote_session.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/session/service.h"
#include "tests/session/cut_transport.h"

namespace pw::session {

class ServedCluster : public controller::TestCluster {
 public:
  explicit ServedCluster(int hosts = 1, int devices = 4, absl::Duration grace = absl::Minutes(10),
                         controller::ClusterOptions cluster_options = {}, SessionService::Options options = {})
      : TestCluster(hosts, devices, cluster_options) {
    options.identity = cluster_options.identity;
    options.grace = grace;
    options.make_key = [n = 0]() mutable { return absl::StrCat("key ", ++n); };
    service = SessionService::Create(std::move(options), {cluster.get(), &timers});
    auto listening = service->Listen(&transport, "tcp:sessions:0");
    EXPECT_TRUE(listening.ok()) << listening.status();
    service_address = *listening;
  }
  ~ServedCluster() {
    session = nullptr;
    remote = nullptr;
    Run();
    service->Stop(absl::OkStatus());
    Run();
  }

  // Opens a remote session and makes it `session`.
  absl::Status Connect(absl::Duration patience = absl::Seconds(30), const client::HostBuffers::Limits& limits = {}) {
    client::Link::Options options;
    options.controller = service_address;
    options.description = "a test";
    options.say = said;
    options.patience = patience;
    auto opened = std::make_shared<absl::Status>(absl::CancelledError("still waiting"));
    remote = client::RemoteSession::Open(
        std::move(options), {&cut, &client_strand, &timers, &clock},
        [opened](absl::Status status) { *opened = std::move(status); }, limits);
    session = remote;
    Run();
    return *opened;
  }
  // Returns the number of shards that workers hold, after everything in flight is done.
  size_t Shards() {
    Run();
    size_t shards = 0;
    for (const auto& worker : workers) shards += worker->num_shards();
    return shards;
  }

  std::function<void(const std::string&)> said;  // takes lines for the user
  CutTransport cut{&transport};
  Strand client_strand{&executor};
  std::shared_ptr<SessionService> service;
  std::string service_address;
  std::shared_ptr<client::RemoteSession> remote;
};

}  // namespace pw::session
