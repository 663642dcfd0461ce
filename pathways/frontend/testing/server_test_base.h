// The front end over real gRPC, for tests: a server over a FakeCluster, and clients that speak the protocol directly.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/headers.h"
#include "pathways/frontend/server.h"
#include "pathways/frontend/testing/fake_cluster.h"

namespace pw::frontend {

using xla::ifrt::proxy::GrpcHostBufferStoreMetadata;
using xla::ifrt::proxy::GrpcIfrtService;
using xla::ifrt::proxy::GrpcIfrtSessionMetadata;
using xla::ifrt::proxy::IfrtRequest;
using xla::ifrt::proxy::IfrtResponse;

// A session stream of a test client.
class Stream {
 public:
  Stream(GrpcIfrtService::Stub& stub, std::string metadata) {
    context_.AddMetadata(kSessionHeader, std::move(metadata));
    stream_ = stub.IfrtSession(&context_);
  }
  ~Stream() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    stream_->Finish();
  }
  bool Send(IfrtRequest request) {
    request.mutable_request_metadata()->set_op_id(++op_id_);
    return stream_->Write(request);
  }
  bool Receive(IfrtResponse& response) { return stream_->Read(&response); }
  IfrtResponse Call(IfrtRequest request) {
    IfrtResponse response;
    if (!Send(std::move(request)) || !Receive(response)) ADD_FAILURE() << "the stream has ended";
    return response;
  }
  grpc::Status Finish() {
    grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }
  void HalfClose() { stream_->WritesDone(); }
  uint64_t Init() {
    IfrtRequest request;
    request.mutable_init_request();
    return Call(std::move(request)).init_response().session_id();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<IfrtRequest, IfrtResponse>> stream_;
  uint64_t op_id_ = 0;
};

class ServerTest : public ::testing::Test {
 protected:
  void Start(ServerOptions options = {}) {
    auto server = Server::Start(options, &cluster_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), arguments);
    stub_ = GrpcIfrtService::NewStub(channel_);
  }
  ~ServerTest() override {
    stub_.reset();
    channel_.reset();
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
  }

  static std::string Metadata(int version = 25, const Attributes& data = {}) {
    GrpcIfrtSessionMetadata metadata;
    metadata.mutable_version()->set_protocol_version(version);
    *metadata.mutable_initialization_data() = AttributesToProto(data);
    return metadata.SerializeAsString();
  }
  std::unique_ptr<Stream> Open() { return std::make_unique<Stream>(*stub_, Metadata()); }

  // Runs `f` on the strand and waits for it.
  template <class F>
  auto OnStrand(F f) {
    std::promise<decltype(f())> result;
    strand_.Post([&] { result.set_value(f()); });
    return result.get_future().get();
  }
  size_t Sessions() {
    return OnStrand([this] { return cluster_.sessions.size(); });
  }
  // The only session. On the strand.
  testing::FakeSession& TheSession() { return *cluster_.sessions.begin()->second; }
  // Admits a store that waits for room. On the strand.
  bool Admit(uint64_t handle) {
    auto admitted = TheSession().waiting.extract(handle);
    TheSession().announced[handle] = 0;
    std::move(admitted.mapped())(absl::OkStatus());
    return true;
  }
  // Returns true once `condition` holds, evaluated on the strand; false after some seconds.
  template <class F>
  bool Eventually(F condition) {
    for (int i = 0; i < 300000; ++i) {
      if (OnStrand(condition)) return true;
      std::this_thread::yield();
    }
    return false;
  }

  static std::string StoreHeader(uint64_t session, uint64_t handle, int64_t size) {
    GrpcHostBufferStoreMetadata metadata;
    metadata.set_session_id(session);
    metadata.set_handle(handle);
    metadata.set_buffer_size(size);
    return metadata.SerializeAsString();
  }
  grpc::Status Store(const std::string& header, const std::vector<std::string>& chunks) {
    grpc::ClientContext context;
    if (!header.empty()) context.AddMetadata(kStoreHeader, header);
    xla::ifrt::proxy::GrpcHostBufferStoreResponse response;
    auto writer = stub_->HostBufferStore(&context, &response);
    for (const std::string& chunk : chunks) {
      xla::ifrt::proxy::GrpcHostBufferStoreRequest request;
      request.set_data(chunk);
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status Lookup(uint64_t session, uint64_t handle, std::string& data, int& messages) {
    grpc::ClientContext context;
    xla::ifrt::proxy::GrpcHostBufferLookupRequest request;
    request.set_session_id(session);
    request.set_handle(handle);
    auto reader = stub_->HostBufferLookup(&context, request);
    xla::ifrt::proxy::GrpcHostBufferLookupResponse response;
    for (messages = 0; reader->Read(&response); ++messages) data += response.data();
    return reader->Finish();
  }
  grpc::Status Delete(uint64_t session, uint64_t handle) {
    grpc::ClientContext context;
    xla::ifrt::proxy::GrpcHostBufferDeleteRequest request;
    request.set_session_id(session);
    request.set_handle(handle);
    xla::ifrt::proxy::GrpcHostBufferDeleteResponse response;
    return stub_->HostBufferDelete(&context, request, &response);
  }
  grpc::Status ReadFromDisk(uint64_t session, uint64_t handle, int64_t size) {
    grpc::ClientContext context;
    xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest request;
    request.mutable_metadata()->set_session_id(session);
    request.mutable_metadata()->set_handle(handle);
    request.mutable_metadata()->set_buffer_size(size);
    xla::ifrt::proxy::GrpcHostBufferReadFromDiskResponse response;
    return stub_->HostBufferReadFromDisk(&context, request, &response);
  }
  static IfrtRequest ErrorArray(uint64_t handle) {
    IfrtRequest request;
    auto& make = *request.mutable_make_error_arrays_request();
    make.mutable_error()->set_code(tensorflow::error::DATA_LOSS);
    auto& spec = *make.add_array_specs();
    spec.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
    *spec.mutable_sharding() = ShardingToProto(buffers::Sharding::SingleDevice(DeviceId(0), ""));
    make.add_array_handles(handle);
    return request;
  }

  ThreadPool pool_{"test-strand", 1};
  Strand strand_{&pool_};
  testing::FakeCluster cluster_{&strand_};
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GrpcIfrtService::Stub> stub_;
};

}  // namespace pw::frontend
