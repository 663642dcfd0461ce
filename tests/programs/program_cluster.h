// ProgramCluster: a controller and real workers in one thread, with simulated devices and a network in memory, for tests of whole
// programs. Nothing happens outside Run and its callers.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/threads/strand.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/device/simulated/testing.h"
#include "pathways/program/program.h"
#include "pathways/worker/controller_link.h"
#include "tests/programs/tapped_transport.h"

namespace pw::programs {

using controller::Handle;

using device::kAdd;
using device::kDonate;

// A worker with its link to the controller and its devices.
class RealWorker {
 public:
  RealWorker(int number, int devices, const std::string& controller, Executor* executor, Timers* timers, Clock* clock,
             net::MemoryNetwork* network, bool timed)
      : memory_(network, executor),
        transport_(&memory_, controller),
        runtime_({devices, executor, timed ? timers : nullptr}),
        strand_(executor) {
    auto listener = transport_.Listen(absl::StrCat("tcp:worker", number, ":0"), [this](std::unique_ptr<net::Connection> c) {
      if (link_ != nullptr) link_->AcceptPeer(std::move(c));
    });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    worker::Environment environment;
    environment.runtime = &runtime_;
    environment.strand = &strand_;
    environment.clock = clock;
    environment.compile_pool = executor;
    environment.compile_cache = std::make_shared<worker::CompileCache>("", 0);
    environment.transport = &transport_;
    environment.next_launch_id = &launch_id_;
    worker::LinkOptions options;
    options.controller = controller;
    options.host_name = absl::StrCat("w", number);
    options.island = absl::StrCat("i", number);
    options.data_address = listener_->address();
    options.exit_with_controller = true;
    link_ = std::make_unique<worker::ControllerLink>(environment, &strand_, timers, options, [](const absl::Status&) {});
    link_->Start();
  }
  void Stop() {
    link_->Stop("the test stops it", [] {});
  }
  device::SimulatedRuntime& runtime() { return runtime_; }
  TappedTransport& transport() { return transport_; }
  int64_t arrays() const { return link_->arrays(); }
  size_t programs() const { return link_->programs(); }

 private:
  net::MemoryTransport memory_;
  TappedTransport transport_;
  device::SimulatedRuntime runtime_;
  Strand strand_;
  int launch_id_ = 0;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<worker::ControllerLink> link_;
};

// The cluster. Host h has devices 2h and 2h + 1.
class ProgramCluster : public controller::TestCluster {
 public:
  static constexpr int kDevices = 2;

  ProgramCluster(int hosts, bool sequential) : ProgramCluster(hosts, Options(sequential)) {}
  // `timed`: computations take the time that their programs state.
  ProgramCluster(int hosts, controller::ClusterOptions options, bool timed = false) : TestCluster(0, 0, std::move(options)) {
    for (int h = 0; h < hosts; ++h) {
      real.push_back(std::make_unique<RealWorker>(h, kDevices, address, &executor, &timers, &clock, &network, timed));
      Run();
    }
    Open();
  }
  ~ProgramCluster() {
    session = nullptr;
    Run();
    for (auto& worker : real) {
      if (worker == nullptr) continue;
      worker->runtime().ReleaseHeld();  // what a device has begun holds its buffers
      Run();
      worker->Stop();
    }
    Run();
    cluster->Stop("the test ends", false, [] {});
    Run();
    real.clear();
  }

  controller::SessionImpl& impl() { return static_cast<controller::SessionImpl&>(*session); }

  absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> Load(const ::pathways::v1::Program& program) {
    return Await<std::shared_ptr<const controller::ExecutableInfo>>(
        [&](auto done) { session->CompileProgram(Bytes::FromString(program.SerializeAsString()), std::move(done)); });
  }
  absl::Status PutFloats(Handle handle, const buffers::ArraySpec& spec, const std::vector<float>& values) {
    return Put(handle, spec, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }
  absl::StatusOr<std::vector<float>> Floats(Handle handle) {
    auto bytes = Fetch(handle);
    if (!bytes.ok()) return bytes.status();
    std::vector<float> values(bytes->size() / sizeof(float));
    std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
    return values;
  }
  // Returns the number of arrays that the host holds.
  int64_t Arrays(int host) {
    Run();
    return real[host]->arrays();
  }
  uint64_t Sent(int host, ::pathways::v1::Command::KindCase kind) {
    return cluster->fabric().outbox().counters(HostId(host)).of(kind);
  }

  // Runs of programs that the host was told to begin.
  uint64_t Runs(int host) { return cluster->fabric().outbox().counters(HostId(host)).runs; }

  std::vector<std::unique_ptr<RealWorker>> real;

  static controller::ClusterOptions Options(bool sequential) {
    controller::ClusterOptions options;
    options.sequential_dispatch = sequential;
    return options;
  }
};

// Builds the bytes of a program of f32[4] arrays.
class Builder {
 public:
  static constexpr int kF32 = 11;
  static constexpr int64_t kElements = 4;

  explicit Builder(std::string name) { proto.set_name(std::move(name)); }

  uint32_t Sharding(const std::vector<int>& devices, bool rows = false) {
    auto* sharding = proto.add_shardings();
    for (int d : devices) sharding->add_devices(d);
    if (rows) {
      xla::OpSharding tiles;
      tiles.set_type(xla::OpSharding::OTHER);
      tiles.add_tile_assignment_dimensions(static_cast<int64_t>(devices.size()));
      for (size_t i = 0; i < devices.size(); ++i) tiles.add_tile_assignment_devices(static_cast<int64_t>(i));
      sharding->set_op_sharding(tiles.SerializeAsString());
    }
    return static_cast<uint32_t>(proto.shardings_size() - 1);
  }
  uint32_t Executable(const std::string& recipe, const std::vector<int>& devices) {
    auto* executable = proto.add_executables();
    executable->set_format("sim");
    executable->set_module(recipe);
    executable->set_num_replicas(1);
    executable->set_num_partitions(static_cast<int>(devices.size()));
    for (int d : devices) executable->add_devices(d);
    return static_cast<uint32_t>(proto.executables_size() - 1);
  }
  // Each adds a node, and returns the node's first value.
  uint32_t Arg(uint32_t sharding, bool donated = false, bool apart = false) {
    auto* arg = Node()->mutable_arg();
    arg->set_dtype(kF32);
    arg->add_dims(kElements);
    arg->set_sharding(sharding);
    arg->set_donated(donated);
    arg->set_apart(apart);
    return values_++;
  }
  uint32_t Compute(uint32_t executable, const std::vector<uint32_t>& inputs, uint32_t outputs = 1) {
    auto* compute = Node()->mutable_compute();
    compute->set_executable(executable);
    for (uint32_t input : inputs) compute->add_inputs(input);
    compute->set_num_outputs(outputs);
    values_ += outputs;
    return values_ - outputs;
  }
  uint32_t Transfer(uint32_t input, uint32_t sharding) {
    auto* transfer = Node()->mutable_transfer();
    transfer->set_input(input);
    transfer->set_sharding(sharding);
    return values_++;
  }
  void Result(uint32_t input) { Node()->mutable_result()->set_input(input); }

  ::pathways::v1::Program proto;

 protected:
  ::pathways::v1::ProgramNode* Node() {
    auto* node = proto.add_nodes();
    node->set_location(absl::StrCat("test.py:", proto.nodes_size()));
    return node;
  }
  uint32_t values_ = 0;
};

inline buffers::ArraySpec On(std::vector<int> devices) {
  std::vector<DeviceId> ids;
  for (int d : devices) ids.push_back(DeviceId(d));
  return {buffers::DType::kF32, {Builder::kElements}, buffers::Sharding::Replicated(std::move(ids), "")};
}

}  // namespace pw::programs
