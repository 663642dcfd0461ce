// LaneCluster: a controller, real workers over simulated devices, and a client with lanes to them, in one thread and one network in memory.
// `remote->lanes().Break` breaks a lane; `cut` breaks the connection of the client that was made last, to the controller or to a worker.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/worker/controller_link.h"
#include "tests/session/served_cluster.h"

namespace pw::session {

// A worker process.
class LaneHost {
 public:
  LaneHost(controller::TestCluster* world, const std::string& name, const std::string& island, int devices,
           const worker::Limits& limits, storage::Roots client_files)
      : runtime_({.devices = devices, .executor = &world->executor}), strand_(&world->executor) {
    // Names are unique: the addresses are free.
    peers_ = *world->transport.Listen(absl::StrCat("tcp:", name, ":0"), [this](std::unique_ptr<net::Connection> connection) {
      if (link_ != nullptr) link_->AcceptPeer(std::move(connection));
    });
    lanes_ = *world->transport.Listen(absl::StrCat("tcp:", name, ":0"), [this](std::unique_ptr<net::Connection> connection) {
      ++lanes_accepted;
      if (link_ != nullptr) link_->AcceptLane(std::move(connection));
    });
    worker::Environment environment;
    environment.runtime = &runtime_;
    environment.strand = &strand_;
    environment.clock = &world->clock;
    environment.compile_pool = &world->executor;
    environment.compile_cache = std::make_shared<worker::CompileCache>("", 0);
    environment.transport = &world->transport;
    environment.next_launch_id = &launch_id_;
    environment.limits = limits;
    environment.disk = &world->executor;
    environment.client_files = std::move(client_files);
    worker::LinkOptions options;
    options.controller = world->address;
    options.host_name = name;
    options.island = island;
    options.data_address = peers_->address();
    options.lane_address = lanes_->address();
    options.share_memory = false;
    link_ = std::make_unique<worker::ControllerLink>(environment, &strand_, &world->timers, options, [](const absl::Status&) {});
    link_->Start();
  }

  // Kills the process.
  void Die() {
    lanes_ = nullptr;
    peers_ = nullptr;
    link_ = nullptr;
  }
  // Refuses new lanes.
  void StopListening() { lanes_ = nullptr; }
  const std::string& lane_address() const { return lanes_->address(); }
  int64_t arrays() const { return link_->arrays(); }
  int live_buffers() const { return runtime_.live_buffers(); }

  int lanes_accepted = 0;

 private:
  device::SimulatedRuntime runtime_;
  Strand strand_;
  int launch_id_ = 0;
  std::unique_ptr<net::Listener> peers_, lanes_;
  std::unique_ptr<worker::ControllerLink> link_;
};

class LaneCluster : public ServedCluster {
 public:
  // `client_files`: the folders of each host that clients may use; empty: none.
  explicit LaneCluster(int num_hosts = 2, int devices = 2, const worker::Limits& limits = {},
                       const std::vector<storage::Roots>& client_files = {})
      : ServedCluster(0, 0, absl::Minutes(10), Options(num_hosts)) {
    for (int h = 0; h < num_hosts; ++h) {
      hosts.push_back(std::make_unique<LaneHost>(this, absl::StrCat("h", h), absl::StrCat("i", h), devices, limits,
                                                 client_files.empty() ? storage::Roots() : client_files[h]));
      Run();
    }
  }
  ~LaneCluster() {
    session = nullptr;
    remote = nullptr;
    Run();
    for (const auto& host : hosts) host->Die();
    Run();
  }

  // Connects; all arrays of more than a few bytes go by lane.
  absl::Status ConnectWithLanes(int64_t kept = 1 << 30) { return Connect(absl::Seconds(30), {.in_frame = 8, .kept = kept}); }
  int64_t BytesThroughController() { return cluster->fabric().array_bytes(); }
  // Returns the number of arrays that workers hold, after everything in flight is done.
  int64_t Arrays() {
    Run();
    int64_t arrays = 0;
    for (const auto& host : hosts) arrays += host->arrays();
    return arrays;
  }
  static std::string Pattern(size_t size, int seed = 0) {
    std::string text(size, 0);
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 131 + i / 251 + static_cast<size_t>(seed) * 17) % 256);
    return text;
  }

  std::vector<std::unique_ptr<LaneHost>> hosts;

 private:
  static controller::ClusterOptions Options(int num_hosts) {
    controller::ClusterOptions options;
    options.expect_hosts = num_hosts;
    options.share_memory = false;
    options.make_key = [n = 0]() mutable { return absl::StrCat("lane key ", ++n); };
    return options;
  }
};

}  // namespace pw::session
