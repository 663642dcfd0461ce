// TestCluster: a controller and fake workers in one thread, for tests. Nothing happens outside Run and the helpers that call it.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/controller/testing/fake_worker.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/program/op_sharding.h"

namespace pw::controller {

class TestCluster {
 public:
  // Adds hosts w0, w1, ... of islands i0, i1, ... (one each), with `devices` devices each; device ids are consecutive.
  explicit TestCluster(int hosts = 1, int devices = 4, ClusterOptions options = {}) {
    if (hosts > 0) options.expect_hosts = hosts;
    cluster = ClusterImpl::Create(options, {&executor, &timers, &clock});
    auto listening = cluster->Listen(&transport, "tcp:controller:0");
    EXPECT_TRUE(listening.ok()) << listening.status();
    address = *listening;
    for (int h = 0; h < hosts; ++h) Add({absl::StrCat("w", h), absl::StrCat("i", h), devices});
  }
  ~TestCluster() {
    session = nullptr;
    cluster->Stop("the test ends", false, [] {});
    Run();
    workers.clear();
    Run();
  }

  FakeWorker& Add(FakeWorker::Options options) {
    workers.push_back(std::make_unique<FakeWorker>(std::move(options), &hub));
    workers.back()->Join(&transport, address);
    Run();
    return *workers.back();
  }
  void Run() {
    cluster->Post([] {});  // flushes commands that were planned outside the strand
    executor.RunUntilIdle();
  }
  Session& Open() {
    auto opened = cluster->OpenSession("a test");
    EXPECT_TRUE(opened.ok()) << opened.status();
    session = *opened;
    return *session;
  }

  // Runs until the callback has run. CANCELLED "still waiting" if it does not.
  template <class T, class F>
  absl::StatusOr<T> Await(F start) {
    auto result = std::make_shared<std::optional<absl::StatusOr<T>>>();
    start([result](absl::StatusOr<T> value) { *result = std::move(value); });
    EXPECT_FALSE(result->has_value()) << "a callback ran inside the call";
    Run();
    return result->has_value() ? **result : absl::StatusOr<T>(absl::CancelledError("still waiting"));
  }
  template <class F>
  absl::Status AwaitStatus(F start) {
    return Await<int>([&](auto done) {
             start([done = std::move(done)](absl::Status status) mutable {
               if (status.ok())
                 done(1);
               else
                 done(status);
             });
           })
        .status();
  }

  absl::Status Ready(std::vector<Handle> arrays) {
    return AwaitStatus([&](auto done) { session->WhenReady(arrays, std::move(done)); });
  }
  absl::StatusOr<std::string> Fetch(Handle array, std::optional<buffers::Dims> strides = std::nullopt) {
    const Handle buffer = next_buffer_++;
    absl::Status status = AwaitStatus([&](auto done) { session->CopyToHostBuffer(array, buffer, strides, std::move(done)); });
    if (!status.ok()) return status;
    auto bytes = Await<Bytes>([&](auto done) { session->LookupHostBuffer(buffer, std::move(done)); });
    if (!bytes.ok()) return bytes.status();
    EXPECT_TRUE(session->DeleteHostBuffer(buffer).ok());
    return std::string(bytes->view());
  }

  static buffers::ArraySpec Single(int device, buffers::Dims dims, buffers::DType dtype = buffers::DType::kU8) {
    return {dtype, std::move(dims), buffers::Sharding::SingleDevice(DeviceId(device), "")};
  }
  static std::vector<DeviceId> Devices(int first, int count) {
    std::vector<DeviceId> devices;
    for (int i = 0; i < count; ++i) devices.push_back(DeviceId(first + i));
    return devices;
  }
  static buffers::ArraySpec Rows(int first_device, int count, buffers::Dims dims, buffers::DType dtype = buffers::DType::kU8) {
    buffers::Dims counts(dims.size(), 1);
    counts[0] = count;
    return {dtype, dims, *buffers::Sharding::Tiled(Devices(first_device, count), "", {counts, {}})};
  }
  // Makes an array of rows; each shard gets a piece of `text`. A replicated spec: all shards get all of it.
  absl::Status Put(Handle result, const buffers::ArraySpec& spec, const std::string& text) {
    std::vector<HostShard> sources;
    const int64_t tiles = spec.sharding.num_tiles();
    for (int64_t t = 0; t < tiles; ++t) {
      const Handle buffer = tiles == 1 ? result : next_buffer_++;
      HostShard source{buffer, {spec.dtype, spec.sharding.TileRegion(spec.dims, t).size, std::nullopt}, {}};
      for (int s = 0; s < spec.sharding.num_shards(); ++s) {
        if (spec.sharding.TileOfShard(s) == t) source.shards.push_back(s);
      }
      const size_t piece = text.size() / tiles;
      EXPECT_TRUE(session->StoreHostBuffer(buffer, Bytes::Copy(text.substr(t * piece, piece))).ok());
      sources.push_back(std::move(source));
    }
    return session->MakeArray(result, spec, sources);
  }
  // Fetches a whole array of rows, shard by shard.
  absl::StatusOr<std::string> FetchRows(Handle array) {
    auto spec = session->Spec(array);
    if (!spec.ok()) return spec.status();
    std::vector<Handle> pieces;
    for (int i = 0; i < spec->sharding.num_shards(); ++i) pieces.push_back(session->NewHandle());
    absl::Status status = session->Disassemble(pieces, array, CopySemantics::kReuseInput);
    std::string all;
    for (Handle piece : pieces) {
      auto bytes = Fetch(piece);
      status.Update(bytes.status());
      if (bytes.ok()) all += *bytes;
    }
    EXPECT_TRUE(session->Destruct(pieces).ok());
    if (!status.ok()) return status;
    return all;
  }

  // A toy program over rows with `inputs` arguments and `outputs` results; each shard of them is u8[1, 4].
  static ::pathways::v1::Compiled Toy(const std::string& name, int inputs, int outputs, int partitions,
                                      std::vector<int> donated = {}) {
    ::pathways::v1::Compiled toy;
    toy.set_name(name);
    xla::OpSharding rows;
    rows.set_type(xla::OpSharding::OTHER);
    rows.add_tile_assignment_dimensions(partitions);
    rows.add_tile_assignment_dimensions(1);
    rows.add_iota_reshape_dims(partitions);
    auto fill = [&](::pathways::v1::Compiled::Value* value) {
      value->set_dtype(static_cast<int>(buffers::DType::kU8));
      value->add_shard_dims(1);
      value->add_shard_dims(4);
      value->set_op_sharding(rows.SerializeAsString());
    };
    for (int i = 0; i < inputs; ++i) fill(toy.add_parameters());
    for (int i = 0; i < outputs; ++i) fill(toy.add_outputs());
    for (int d : donated) toy.add_donated_inputs(d);
    return toy;
  }
  absl::StatusOr<std::shared_ptr<const ExecutableInfo>> Compile(const ::pathways::v1::Compiled& toy,
                                                                std::vector<DeviceId> devices) {
    CompileRequest request;
    request.format = "mlir";
    request.program = Bytes::FromString(toy.SerializeAsString());
    request.options = "\x10\x01";  // parameter_is_tupled_arguments
    request.num_partitions = static_cast<int>(devices.size());
    request.devices = std::move(devices);
    return Await<std::shared_ptr<const ExecutableInfo>>(
        [&](auto done) { session->Compile(std::move(request), std::move(done)); });
  }
  absl::StatusOr<ExecuteReply> Execute(Handle executable, std::vector<Handle> args, std::vector<Handle> results,
                                       Handle status = 0) {
    ExecuteRequest request;
    request.executable = executable;
    request.args = std::move(args);
    request.results = std::move(results);
    request.status = status;
    return session->Execute(request);
  }

  ManualExecutor executor;
  ManualClock clock;
  ManualTimers timers{&clock, &executor};
  net::MemoryNetwork network;
  net::MemoryTransport transport{&network, &executor};
  FakeWorker::Hub hub;
  std::shared_ptr<ClusterImpl> cluster;
  std::string address;
  std::vector<std::unique_ptr<FakeWorker>> workers;
  std::shared_ptr<Session> session;

 private:
  Handle next_buffer_ = 1'000'000;
};

}  // namespace pw::controller
