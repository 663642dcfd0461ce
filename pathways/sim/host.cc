#include "pathways/sim/host.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::sim {

Host::Host(World* world, Network* network, const Options& options)
    : process_(world, options.name, options.island, options.task_time),
      transport_(network->TransportOf(&process_)),
      device_time_(&process_),
      runtime_({.devices = options.devices, .executor = &process_, .timers = &device_time_, .process = options.name}),
      strand_(&process_) {
  // Names are unique, so no other process listens there.
  listener_ = *transport_->Listen(absl::StrCat("tcp:", options.name, ":0"), [this](std::unique_ptr<net::Connection> peer) {
    if (link_ != nullptr) link_->AcceptPeer(std::move(peer));
  });
  lane_listener_ = *transport_->Listen(absl::StrCat("tcp:", options.name, ":0"), [this](std::unique_ptr<net::Connection> client) {
    if (link_ != nullptr) link_->AcceptLane(std::move(client));
  });
  worker::Environment environment;
  environment.runtime = &runtime_;
  environment.strand = &strand_;
  environment.clock = &process_;
  environment.timers = &process_;
  environment.compile_pool = &process_;
  environment.compile_cache = std::make_shared<worker::CompileCache>("", 0);
  environment.transport = transport_.get();
  environment.next_launch_id = &launch_id_;
  environment.limits.device_memory_bytes = options.device_memory_bytes;
  worker::LinkOptions link;
  link.controller = options.controller;
  link.host_name = options.name;
  link.island = options.island;
  link.data_address = listener_->address();
  link.lane_address = lane_listener_->address();
  link.share_memory = false;
  link_ = std::make_unique<worker::ControllerLink>(environment, &strand_, &process_, link, [](const absl::Status&) {});
  link_->Start();
}

Host::~Host() { process_.Kill(); }

void Host::Slow(double factor) {
  process_.Slow(factor);
  device_time_.factor = factor;
}

void Host::Die() {
  process_.Kill();
  link_ = nullptr;
}

}  // namespace pw::sim
