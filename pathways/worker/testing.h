// WorkerHarness: a worker under test with a simulated runtime, manual executors, and a connection that records the worker's
// messages (testing_connection.h). Not for products.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/device/simulated/testing.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/worker/testing_connection.h"
#include "pathways/worker/worker.h"

namespace pw::worker {

namespace v1 = pathways::v1;

using device::kAdd;
using device::kDonate;

inline std::string FloatBytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
inline std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// A worker and helpers that send it commands.
class WorkerHarness {
 public:
  struct Setup {
    int devices = 2;
    Limits limits;
    uint32_t host = 1;
    std::string compile_cache;
    net::Transport* transport = nullptr;
    bool takes_shared = false;  // the controller can open the worker's shared memory
    bool checksum = false;
    ManualExecutor* executor = nullptr;  // shared with other harnesses; null: its own
    Clock* clock = nullptr;              // null: the machine's
    Timers* timers = nullptr;
    absl::Duration heartbeat_limit, grace;  // of links between workers
    storage::Places client_files;           // where clients may save arrays
    bool has_disk = true;
    std::function<std::string()> native_stacks;
  };
  explicit WorkerHarness(Setup setup)
      : executor(setup.executor != nullptr ? *setup.executor : own_),
        runtime({setup.devices, &device_executor}),
        strand(&executor) {
    Environment environment;
    environment.runtime = &runtime;
    environment.strand = &strand;
    environment.clock = setup.clock != nullptr ? setup.clock : &clock_;
    environment.timers = setup.timers;
    environment.compile_pool = &compile_executor;
    environment.compile_cache = std::make_shared<CompileCache>(setup.compile_cache, int64_t{1} << 30);
    environment.copy_pool = &copy_executor;
    if (setup.has_disk) environment.disk = &disk_executor;
    environment.client_files = setup.client_files;
    environment.transport = setup.transport;
    environment.next_launch_id = &launch_id_;
    environment.limits = setup.limits;
    environment.checksum = setup.checksum;
    environment.native_stacks = setup.native_stacks;
    if (setup.native_stacks) environment.python.threads = std::shared_ptr<Executor>(&copy_executor, [](Executor*) {});
    v1::Welcome welcome;
    welcome.set_host(setup.host);
    welcome.set_incarnation(7);
    welcome.set_takes_shared(setup.takes_shared);
    welcome.set_heartbeat_seconds(absl::ToDoubleSeconds(setup.heartbeat_limit) / 3);
    welcome.set_grace_seconds(absl::ToDoubleSeconds(setup.grace));
    strand.SetIdleHook([this] {
      if (worker != nullptr) worker->Idle();
    });
    worker = std::make_unique<Worker>(environment, &connection, welcome);
  }
  WorkerHarness() : WorkerHarness(Setup()) {}
  ~WorkerHarness() {
    worker = nullptr;
    Settle();
  }

  // Sends a command, and runs the strand unless hold_commands. The command may still wait for its inputs afterwards.
  void Do(const v1::Command& command, const std::string& payload = "") {
    if (on_command) on_command(command, payload);
    v1::ToWorker batch;
    *batch.add_commands() = command;
    strand.Post([this, batch, payload] { EXPECT_TRUE(worker->Handle(batch, Bytes::Copy(payload)).ok()); });
    if (!hold_commands) executor.RunUntilIdle();
  }
  // Tells that all requests of the session up to this one are settled.
  void TellSettled(uint64_t up_to, uint64_t session = 1) {
    v1::ToWorker batch;
    batch.add_settled()->set_session(session);
    batch.mutable_settled(0)->set_up_to(up_to);
    strand.Post([this, batch] { EXPECT_TRUE(worker->Handle(batch, Bytes()).ok()); });
    if (!hold_commands) executor.RunUntilIdle();
  }
  // Runs all tasks.
  void Settle() {
    for (;;) {
      executor.RunUntilIdle();
      device_executor.RunUntilIdle();
      compile_executor.RunUntilIdle();
      if (!hold_copies) copy_executor.RunUntilIdle();
      if (!hold_disk) disk_executor.RunUntilIdle();
      const size_t held = (hold_copies ? copy_executor.size() : 0) + (hold_disk ? disk_executor.size() : 0);
      if (executor.size() + device_executor.size() + compile_executor.size() + copy_executor.size() + disk_executor.size() ==
          held)
        break;
    }
  }

  void Compile(uint64_t id, const std::string& program, std::vector<int> devices = {0, 1}, uint64_t session = 1,
               const std::string& user = "") {
    v1::Command command;
    auto* c = command.mutable_compile();
    c->set_executable(id);
    c->set_session(session);
    c->set_user(user);
    c->set_format("sim");
    c->set_program_bytes(program.size());
    c->set_num_replicas(1);
    c->set_num_partitions(static_cast<int>(devices.size()));
    for (int d : devices) c->add_local_devices(d);
    Do(command, program);
  }
  void Execute(uint64_t op, uint64_t executable, std::vector<uint64_t> args, std::vector<uint64_t> results,
               uint64_t session = 1) {
    v1::Command command;
    auto* e = command.mutable_execute();
    e->set_op(op);
    e->set_executable(executable);
    e->set_session(session);
    for (uint64_t a : args) e->add_args(a);
    for (uint64_t r : results) e->add_results(r);
    Do(command);
  }
  v1::Command PutCommand(uint64_t op, uint64_t array, int64_t elements, const std::vector<int>& devices, uint64_t session = 1) {
    v1::Command command;
    auto* p = command.mutable_put();
    p->set_op(op);
    p->set_session(session);
    p->set_array(array);
    p->set_dtype(11);
    p->add_dims(elements);
    for (size_t i = 0; i < devices.size(); ++i) {
      auto* placement = p->add_placements();
      placement->set_shard(static_cast<int>(i));
      placement->set_local_device(devices[i]);
    }
    p->set_total_bytes(elements * sizeof(float));
    p->set_transfer(op + 1000000);
    return command;
  }
  void Put(uint64_t op, uint64_t array, const std::vector<float>& values, const std::vector<int>& devices = {0, 1},
           uint64_t session = 1) {
    v1::Command command = PutCommand(op, array, static_cast<int64_t>(values.size()), devices, session);
    command.mutable_put()->set_payload_bytes(values.size() * sizeof(float));
    Do(command, FloatBytes(values));
  }
  // Announces a put whose bytes come by SendChunks(op, ...).
  void PutLater(uint64_t op, uint64_t array, int64_t elements, const std::vector<int>& devices = {0, 1}, uint64_t session = 1) {
    Do(PutCommand(op, array, elements, devices, session));
  }
  void SendChunks(uint64_t op, const std::vector<float>& values, size_t chunk_bytes = 8, uint64_t session = 1) {
    const std::string bytes = FloatBytes(values);
    for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
      const std::string piece = bytes.substr(at, chunk_bytes);
      v1::Command command;
      auto* chunk = command.mutable_chunk();
      chunk->set_transfer(op + 1000000);
      chunk->set_offset(at);
      chunk->set_total_bytes(bytes.size());
      chunk->set_payload_bytes(piece.size());
      chunk->set_session(session);
      Do(command, piece);
    }
  }
  void Fetch(uint64_t fetch, uint64_t array, int shard) {
    v1::Command command;
    command.mutable_fetch()->set_fetch(fetch);
    command.mutable_fetch()->set_array(array);
    command.mutable_fetch()->set_shard(shard);
    Do(command);
  }
  void Release(uint64_t array) {
    v1::Command command;
    command.mutable_release()->add_arrays(array);
    Do(command);
  }
  void ReleaseOwner(uint64_t session) {
    v1::CleanUp what;
    what.add_sessions(session);
    strand.Post([this, what] { worker->CleanUp(what); });
    if (!hold_commands) executor.RunUntilIdle();
  }
  // Configures the host; the harness counts the versions.
  void Configure(v1::HostConfig config) {
    config.set_version(++configured_);
    strand.Post([this, config] { worker->Configure(config); });
    if (!hold_commands) executor.RunUntilIdle();
  }
  void Alias(uint64_t op, uint64_t array, int shard, uint64_t source, int source_shard) {
    v1::Command command;
    command.mutable_alias()->set_op(op);
    command.mutable_alias()->set_session(1);
    auto* item = command.mutable_alias()->add_items();
    item->set_array(array);
    item->set_shard(shard);
    item->set_source_array(source);
    item->set_source_shard(source_shard);
    Do(command);
  }
  v1::MemoryReport Memory() {
    v1::MemoryReport report;
    strand.Post([&] { report = worker->Memory(); });
    executor.RunUntilIdle();
    return report;
  }
  // Returns the shard's elements once everything has settled. Expects that the fetch succeeds.
  std::vector<float> Read(uint64_t array, int shard) {
    const uint64_t fetch = 900000 + ++query_;
    Fetch(fetch, array, shard);
    Settle();
    EXPECT_TRUE(FromProto(connection.fetched[fetch].status()).ok()) << connection.fetched[fetch].status().message();
    return Floats(connection.fetched_bytes[fetch]);
  }

 private:
  ManualExecutor own_;
  SteadyClock clock_;
  int launch_id_ = 0;
  uint64_t query_ = 0;
  uint64_t configured_ = 0;

 public:
  ManualExecutor& executor;
  ManualExecutor device_executor;
  ManualExecutor compile_executor;
  ManualExecutor copy_executor;
  ManualExecutor disk_executor;
  device::SimulatedRuntime runtime;
  Strand strand;
  RecordingConnection connection;
  std::unique_ptr<Worker> worker;
  std::function<void(const v1::Command&, const std::string& payload)> on_command;  // called for each command that is sent
  bool hold_commands = false;
  bool hold_copies = false;
  bool hold_disk = false;
};

}  // namespace pw::worker
