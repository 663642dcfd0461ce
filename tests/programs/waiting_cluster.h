// World: a cluster for tests of programs with nodes that wait for values. Waiting builds such programs; Functions are a client's
// functions, in C++.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/programs/program_cluster.h"

namespace pw::programs {

// A client's functions. Keeps their calls until the test answers them.
struct Functions : controller::HostCallHandler {
  using Results = absl::StatusOr<std::vector<Bytes>>;
  struct Call {
    controller::HostCall call;
    controller::ResultCallback<std::vector<Bytes>> done;
  };
  void OnHostCall(controller::HostCall call, controller::ResultCallback<std::vector<Bytes>> done) override {
    calls.push_back({std::move(call), std::move(done)});
  }
  void Answer(size_t number = 0) {
    auto [call, done] = std::move(calls[number]);
    calls.erase(calls.begin() + static_cast<ptrdiff_t>(number));
    std::move(done)(compute(call));
  }
  static std::vector<float> Floats(const Bytes& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static Bytes FromFloats(const std::vector<float>& values) {
    return Bytes::Copy(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }
  // Computes the answer to a call; by default the first operand times ten.
  std::function<Results(const controller::HostCall&)> compute = [](const controller::HostCall& call) -> Results {
    std::vector<float> values = Floats(call.data[0]);
    for (float& value : values) value *= 10;
    return std::vector<Bytes>{FromFloats(values)};
  };
  std::vector<Call> calls;
};

// A Builder with nodes that wait for values, and branches.
class Waiting : public Builder {
 public:
  using Builder::Builder;
  uint32_t Index(uint32_t sharding) {  // an s32 argument
    const uint32_t value = Arg(sharding);
    auto* arg = proto.mutable_nodes()->rbegin()->mutable_arg();
    arg->set_dtype(4);
    arg->clear_dims();
    return value;
  }
  // Each adds a node with one output for each sharding, and returns the first output.
  uint32_t HostCall(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& shardings, uint64_t callback = 7) {
    auto* call = Node()->mutable_host_call();
    call->set_callback(callback);
    for (uint32_t input : inputs) call->add_inputs(input);
    return Typed(call->mutable_outputs(), shardings);
  }
  uint32_t Select(uint32_t index, const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& shardings,
                  const std::vector<uint32_t>& branches) {
    auto* select = Node()->mutable_select();
    select->set_index(index);
    for (uint32_t input : inputs) select->add_inputs(input);
    for (uint32_t b : branches) select->add_branches(b);
    return Typed(select->mutable_outputs(), shardings);
  }
  // Adds the nodes of `branch` as a branch of this program, under the same name. Returns the branch's number.
  uint32_t AddBranch(const Waiting& branch) {
    auto* added = proto.add_branches();
    added->set_name(branch.proto.name());
    *added->mutable_nodes() = branch.proto.nodes();
    return static_cast<uint32_t>(proto.branches_size() - 1);
  }
  // Adds a branch that takes an index and an array, and has a choice with branch 0 only.
  void ChoosingBranch(uint32_t sharding) {
    Waiting inner("choosing");
    const uint32_t index = inner.Index(sharding), x = inner.Arg(sharding);
    inner.Result(inner.Select(index, {x}, {sharding}, {0}));
    AddBranch(inner);
  }
  // Adds a branch that passes its argument through these executables. `move`: on the sharding `to`.
  void Branch(uint32_t from, const std::vector<uint32_t>& executables, uint32_t to, uint32_t sharding, bool move) {
    Waiting branch(absl::StrCat("branch", proto.branches_size() + 1));
    uint32_t value = branch.Arg(from);
    if (move) value = branch.Transfer(value, to);
    for (uint32_t executable : executables) value = branch.Compute(executable, {value});
    if (move) value = branch.Transfer(value, sharding);
    branch.Result(value);
    AddBranch(branch);
  }

 private:
  uint32_t Typed(google::protobuf::RepeatedPtrField<::pathways::v1::ProgramNode::Type>* types,
                 const std::vector<uint32_t>& shardings) {
    for (uint32_t sharding : shardings) {
      auto* type = types->Add();
      type->set_dtype(kF32);
      type->add_dims(kElements);
      type->set_sharding(sharding);
    }
    values_ += static_cast<uint32_t>(shardings.size());
    return values_ - static_cast<uint32_t>(shardings.size());
  }
};

// A cluster with a loaded program, and array 1 = {1, 2, 3, 4} on the device.
struct World : ProgramCluster {
  World(int hosts, bool sequential) : World(hosts, Options(sequential)) {}
  World(int hosts, const controller::ClusterOptions& options, bool timed = false)
      : ProgramCluster(hosts, options, timed), functions(std::make_shared<Functions>()) {
    cluster->SetHostCallHandler(session->id(), functions);
  }
  World(int hosts, bool sequential, const Waiting& b, int device = 0) : World(hosts, sequential) { Prepare(b, device); }
  void Prepare(const Waiting& b, int device = 0) {
    auto info = Load(b.proto);
    EXPECT_TRUE(info.ok()) << info.status();
    program = info.ok() ? (*info)->handle : 0;
    EXPECT_TRUE(PutFloats(1, On({device}), {1, 2, 3, 4}).ok());
  }
  void Begin(const std::vector<Handle>& args, const std::vector<Handle>& results) {
    auto reply = Execute(program, args, results);
    EXPECT_TRUE(reply.ok()) << reply.status();
    Run();
  }
  static buffers::ArraySpec Scalar(int device) {
    return {buffers::DType::kS32, {}, buffers::Sharding::SingleDevice(DeviceId(device), "")};
  }
  static std::string BytesOf(int32_t index) { return {reinterpret_cast<const char*>(&index), sizeof index}; }
  void PutIndex(Handle handle, int32_t index, int device) { EXPECT_TRUE(Put(handle, Scalar(device), BytesOf(index)).ok()); }
  // Makes an array whose bytes arrive with SendIndex.
  void PutIndexLater(Handle handle, int device) {
    const controller::HostShard source{kLater + handle, {buffers::DType::kS32, {}, std::nullopt}, {0}};
    EXPECT_TRUE(session->MakeArray(handle, Scalar(device), {source}).ok());
  }
  void SendIndex(Handle handle, int32_t index) {
    EXPECT_TRUE(session->StoreHostBuffer(kLater + handle, Bytes::Copy(BytesOf(index))).ok());
    Run();
  }
  void Drop(const std::vector<Handle>& handles) { EXPECT_TRUE(session->Destruct(handles).ok()); }
  int64_t AllArrays() {
    int64_t all = 0;
    for (size_t h = 0; h < real.size(); ++h) all += Arrays(static_cast<int>(h));
    return all;
  }

  static constexpr Handle kLater = 1000;
  const std::shared_ptr<Functions> functions;
  Handle program = 0;
};

}  // namespace pw::programs
