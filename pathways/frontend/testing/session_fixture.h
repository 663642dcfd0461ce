// A client session on a cluster without workers, and the requests that tests send to it. Parametrized by protocol version.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/testing/fake_cluster.h"
#include "pathways/frontend/versions.h"

namespace pw::frontend::testing {

class Sink final : public ResponseSink {
 public:
  void Write(IfrtResponse response) override { responses.push_back(std::move(response)); }
  void Ran(int64_t) override { ++ran; }
  std::vector<IfrtResponse> responses;
  int ran = 0;  // requests
};

class ClientSessionTest : public ::testing::TestWithParam<int> {
 protected:
  ClientSessionTest() { Connect({}); }

  // Starts anew, as another client.
  void Connect(Attributes initialization_data) {
    SessionHello hello;
    hello.protocol_version = GetParam();
    hello.serdes_version = 3;
    hello.peer = "ipv4:127.0.0.1:4242";
    hello.initialization_data = std::move(initialization_data);
    session_ = std::make_shared<ClientSession>(&cluster_, &table_, &services_, hello, &sink_);
  }

  // Returns the answer to `request`, or one with op_id 0 if there is none. Checks invariants of all answers.
  IfrtResponse Call(IfrtRequest request) {
    request.mutable_request_metadata()->set_op_id(++op_id_);
    IfrtRequest reparsed;  // as from the wire
    EXPECT_TRUE(reparsed.ParseFromString(request.SerializeAsString()));
    session_->Run(Decode(handlers_, reparsed));
    cluster_.RunAll();
    for (const IfrtResponse& response : sink_.responses) {
      if (response.response_metadata().op_id() != op_id_) continue;
      const bool ok = response.response_metadata().status().code() == 0;
      EXPECT_EQ(ok, response.response_case() != IfrtResponse::RESPONSE_NOT_SET) << response.ShortDebugString();
      return response;
    }
    return IfrtResponse();
  }
  static int CodeOf(const IfrtResponse& response) { return response.response_metadata().status().code(); }
  static std::string TextOf(const IfrtResponse& response) { return response.response_metadata().status().message(); }

  IfrtResponse Init() {
    IfrtRequest request;
    request.mutable_init_request();
    return Call(std::move(request));
  }
  FakeSession& fake() { return *cluster_.sessions.begin()->second; }

  static xla::ifrt::ShardingProto OnDevice(int device) {
    return ShardingToProto(buffers::Sharding::SingleDevice(DeviceId(device), "device"));
  }
  static xla::ifrt::ArraySpecProto SpecOf(int device = 0) {
    xla::ifrt::ArraySpecProto spec;
    spec.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
    spec.mutable_shape()->add_dims(4);
    *spec.mutable_sharding() = OnDevice(device);
    return spec;
  }
  // Makes an f32[4] on device 0 under `handle`.
  IfrtResponse MakeArray(uint64_t handle) {
    IfrtRequest request;
    auto& make = *request.mutable_make_array_from_host_buffer_request();
    const auto spec = SpecOf();
    *make.mutable_dtype() = spec.dtype();
    *make.mutable_shape() = spec.shape();
    *make.mutable_sharding() = spec.sharding();
    make.set_host_buffer_handle(handle);
    make.set_array_handle(handle);
    make.mutable_byte_strides()->add_strides(4);
    return Call(std::move(request));
  }
  void MakeFilledArray(uint64_t handle) {
    EXPECT_EQ(CodeOf(MakeArray(handle)), 0);
    EXPECT_TRUE(fake().StoreHostBuffer(handle, Bytes::Copy("0123456789abcdef")).ok());
  }
  IfrtResponse CheckReady(std::vector<uint64_t> handles) {
    IfrtRequest request;
    request.mutable_check_value_ready_request()->mutable_value_handles()->Assign(handles.begin(), handles.end());
    return Call(std::move(request));
  }
  IfrtResponse Compile(const std::string& type, const std::string& program, const std::string& options = "") {
    IfrtRequest request;
    auto& compile = *request.mutable_compile_request();
    compile.mutable_program()->set_type_name(type);
    compile.mutable_program()->set_data(program);
    compile.mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
    compile.mutable_compile_options()->set_data(options);
    return Call(std::move(request));
  }
  uint64_t CompileJit() { return Compile("xla::ifrt::XlaProgram", "stablehlo").compile_response().loaded_executable_handle(); }
  IfrtResponse Execute(uint64_t executable, std::vector<uint64_t> args, std::vector<uint64_t> results, uint64_t status = 0) {
    IfrtRequest request;
    auto& execute = *request.mutable_loaded_executable_execute_request();
    execute.set_loaded_executable_handle(executable);
    execute.mutable_args_handles()->Assign(args.begin(), args.end());
    execute.mutable_result_array_handle()->Assign(results.begin(), results.end());
    execute.set_result_status_handle(status);
    execute.mutable_execute_options()->set_fill_status(status != 0);
    execute.mutable_execute_options()->set_launch_id(7);
    return Call(std::move(request));
  }
  IfrtResponse CheckFuture(uint64_t handle) {
    IfrtRequest request;
    request.mutable_check_future_request()->set_future_handle(handle);
    return Call(std::move(request));
  }

  FakeCluster cluster_;
  HandlerTable handlers_;
  SessionTable table_;
  // File operations run on the test's only thread.
  class Inline final : public Executor {
   public:
    explicit Inline(FakeCluster* cluster) : cluster_(cluster) {}
    void Post(Task task) override { cluster_->Post(std::move(task)); }

   private:
    FakeCluster* const cluster_;
  };
  Inline files_{&cluster_};
  SteadyClock clock_;
  PluginServices services_{storage::Roots(::testing::TempDir(), ""), &files_, &clock_};
  Sink sink_;
  std::shared_ptr<ClientSession> session_;
  uint64_t op_id_ = 0;
};

}  // namespace pw::frontend::testing
