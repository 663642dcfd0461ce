// The front end over real gRPC: streams, host buffers, limits, invalid input.
#include "pathways/frontend/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/shared_directory.h"
#include "pathways/frontend/testing/server_test_base.h"

namespace pw::frontend {
namespace {

using ::testing::HasSubstr;

TEST_F(ServerTest, VersionsAreNegotiated) {
  Start();
  grpc::ClientContext context;
  xla::ifrt::proxy::GrpcGetVersionRequest request;
  request.mutable_min_version()->set_protocol_version(16);
  request.mutable_max_version()->set_protocol_version(22);
  request.mutable_max_version()->set_ifrt_serdes_version_number(3);
  xla::ifrt::proxy::GrpcGetVersionResponse response;
  ASSERT_TRUE(stub_->GetVersion(&context, request, &response).ok());
  EXPECT_EQ(response.version().protocol_version(), 22);
  EXPECT_EQ(response.version().ifrt_serdes_version_number(), 3);
  grpc::ClientContext context2;
  request.mutable_min_version()->set_protocol_version(26);
  request.mutable_max_version()->set_protocol_version(30);
  EXPECT_EQ(stub_->GetVersion(&context2, request, &response).error_code(), grpc::FAILED_PRECONDITION);
}

TEST_F(ServerTest, APortInUseIsAnError) {
  Start();
  ServerOptions second;
  second.port = server_->port();
  auto server = Server::Start(second, &cluster_);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr(absl::StrCat(":", second.port)));
}

TEST_F(ServerTest, ASharedDirectoryThatIsNoneIsAnError) {
  ServerOptions options;
  options.shared_directory = "/proc/self/nowhere";
  EXPECT_EQ(Server::Start(options, &cluster_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, ASessionLivesAsLongAsItsStream) {
  Start();
  auto stream = Open();
  EXPECT_NE(stream->Init(), 0);
  EXPECT_EQ(Sessions(), 1);
  stream->HalfClose();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([this] { return cluster_.sessions.empty(); }));
}

TEST_F(ServerTest, ACancelledStreamEndsItsSession) {
  Start();
  auto stream = Open();
  stream->Init();
  stream.reset();
  EXPECT_TRUE(Eventually([this] { return cluster_.sessions.empty(); }));
}

TEST_F(ServerTest, ShutdownEndsSessionsWithTheirStreams) {
  Start();
  auto stream = Open();
  stream->Init();
  server_->Shutdown();
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(Sessions(), 0);
}

// The client ends while answers are on their way, at another moment each time.
TEST_F(ServerTest, EveryStreamWhoseClientEndsIsFinished) {
  Start();
  for (int round = 0; round < 3000; ++round) {
    auto stream = Open();
    const int count = 2 + round % 5;
    for (int i = 0; i < count; ++i) stream->Send(IfrtRequest());  // answered at once: it asks for nothing
    stream->HalfClose();
    int answers = 0;
    for (IfrtResponse response; stream->Receive(response);) ++answers;
    EXPECT_EQ(answers, count);
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(ServerTest, ManyRequestsAreAnsweredOnceEachThoughTheClientReadsLate) {
  ServerOptions options;
  options.max_backlog_requests = 50;  // so that reading pauses and goes on
  Start(options);
  auto stream = Open();
  stream->Init();
  constexpr int kCount = 5000;
  std::thread writer([&] {
    for (int i = 1; i <= kCount; ++i) ASSERT_TRUE(stream->Send(ErrorArray(i)));
  });
  std::vector<int> seen(kCount + 2);
  for (int i = 0; i < kCount; ++i) {
    IfrtResponse response;
    ASSERT_TRUE(stream->Receive(response));
    EXPECT_EQ(response.response_metadata().status().code(), 0);
    EXPECT_EQ(response.response_metadata().seq_num(), i + 1);
    ++seen[response.response_metadata().op_id()];
  }
  writer.join();
  for (int i = 2; i <= kCount + 1; ++i) EXPECT_EQ(seen[i], 1) << i;
}

TEST_F(ServerTest, AClientThatNeverReadsIsHeldBackAndCanStillEnd) {
  ServerOptions options;
  options.max_backlog_requests = 50;
  Start(options);
  auto stream = Open();
  stream->Init();
  std::thread writer([&] {
    IfrtRequest request = ErrorArray(1);  // all but the first fail, each with a message
    while (stream->Send(request)) {
    }
  });
  EXPECT_TRUE(Eventually([this] { return cluster_.sessions.begin()->second->arrays.size() == 1; }));
  server_->Shutdown();
  writer.join();
  EXPECT_EQ(Sessions(), 0);
}

TEST_F(ServerTest, ASuspendedClientIsHeldBackAndGoesOnWhenResumed) {
  ServerOptions options;
  options.max_backlog_requests = 50;
  Start(options);
  auto stream = Open();
  stream->Init();
  OnStrand([this] { return TheSession().pause = true; });
  constexpr int kCount = 5000;
  std::atomic<int> sent = 0;
  std::thread writer([&] {
    for (int i = 1; i <= kCount; ++i, ++sent) ASSERT_TRUE(stream->Send(ErrorArray(i)));
  });
  // This many fit into the connection (64 KiB) though the server does not read them.
  EXPECT_TRUE(Eventually([&] { return sent >= 500 && !TheSession().when_resumed.empty(); }));
  EXPECT_EQ(OnStrand([this] { return TheSession().arrays.size(); }), 0);
  const size_t held = OnStrand([this] {
    TheSession().Resume();
    return TheSession().arrays.size();
  });
  EXPECT_GE(held, 1);
  EXPECT_LE(held, 51);
  for (int i = 0; i < kCount; ++i) {
    IfrtResponse response;
    ASSERT_TRUE(stream->Receive(response));
    EXPECT_EQ(response.response_metadata().seq_num(), i + 1);
  }
  writer.join();
  EXPECT_EQ(OnStrand([this] { return TheSession().arrays.size(); }), kCount);
}

TEST_F(ServerTest, ASuspendedClientThatIsHeldBackCanStillEnd) {
  ServerOptions options;
  options.max_backlog_bytes = 1000;
  Start(options);
  auto stream = Open();
  stream->Init();
  OnStrand([this] { return TheSession().pause = true; });
  for (int i = 1; i <= 100; ++i) ASSERT_TRUE(stream->Send(ErrorArray(i)));
  EXPECT_TRUE(Eventually([this] { return !TheSession().when_resumed.empty(); }));
  stream.reset();
  EXPECT_TRUE(Eventually([this] { return cluster_.sessions.empty(); }));
}

TEST_F(ServerTest, SessionsNeedTheirHeader) {
  Start();
  grpc::ClientContext context;
  EXPECT_EQ(stub_->IfrtSession(&context)->Finish().error_code(), grpc::INVALID_ARGUMENT);
  Stream garbage(*stub_, "\xff\xff");
  EXPECT_EQ(garbage.Finish().error_code(), grpc::INVALID_ARGUMENT);
  Stream old(*stub_, Metadata(3));
  EXPECT_EQ(old.Finish().error_code(), grpc::FAILED_PRECONDITION);
}

// Sends bytes that are no message on a session stream.
TEST_F(ServerTest, ARequestThatDoesNotParseEndsOnlyItsSession) {
  Start();
  auto good = Open();
  good->Init();
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> raw(channel_);
  grpc::ClientContext context;
  context.AddMetadata(kSessionHeader, Metadata());
  grpc::CompletionQueue queue;
  auto call = raw.PrepareCall(&context, "/xla.ifrt.proxy.GrpcIfrtService/IfrtSession", &queue);
  void* tag;
  bool ok;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice slice("\x0a\x7f truncated");
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("request 1"));
  EXPECT_EQ(good->Call(ErrorArray(5)).response_metadata().status().code(), 0);
}

TEST_F(ServerTest, AnOversizedRequestEndsItsSession) {
  ServerOptions options;
  options.max_message_bytes = 1 << 20;
  Start(options);
  auto stream = Open();
  stream->Init();
  IfrtRequest request;
  request.mutable_compile_request()->mutable_program()->set_data(std::string(2 << 20, 'x'));
  stream->Send(std::move(request));
  IfrtResponse response;
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([this] { return cluster_.sessions.empty(); }));
  EXPECT_NE(Open()->Init(), 0);
}

TEST_F(ServerTest, HostBuffersComeBackAsTheyWent) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  const std::string big = std::string(3 << 20, 'a') + std::string(12345, 'b');
  ASSERT_TRUE(Store(StoreHeader(session, 1, big.size()), {big.substr(0, 1 << 20), big.substr(1 << 20)}).ok());
  ASSERT_TRUE(Store(StoreHeader(session, 2, 0), {}).ok());
  std::string data;
  int messages;
  ASSERT_TRUE(Lookup(session, 1, data, messages).ok());
  EXPECT_EQ(data, big);
  EXPECT_EQ(messages, 4);
  data.clear();
  ASSERT_TRUE(Lookup(session, 2, data, messages).ok());
  EXPECT_EQ(data, "");
  EXPECT_EQ(messages, 1);
  EXPECT_TRUE(Delete(session, 1).ok());
  EXPECT_EQ(Delete(session, 1).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Lookup(session, 1, data, messages).error_code(), grpc::NOT_FOUND);
}

TEST_F(ServerTest, HostBuffersThatLieAreRefused) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  OnStrand([this] { return TheSession().staged_limit = 1000; });
  EXPECT_EQ(Store("", {"x"}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Store("\xff\xff", {"x"}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Store(StoreHeader(session, 1, 4), {"12345"}).error_code(), grpc::INVALID_ARGUMENT);
  const grpc::Status short_data = Store(StoreHeader(session, 1, 4), {"123"});
  EXPECT_EQ(short_data.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(short_data.error_message(), HasSubstr("announced with 4 bytes and ended after 3"));
  EXPECT_EQ(Store(StoreHeader(session, 1, -4), {}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(Store(StoreHeader(session, 3, 1001), {std::string(500, 'x'), std::string(501, 'x')}).ok())
      << "its array is the error";
  EXPECT_EQ(OnStrand([this] { return TheSession().failed.at(3).code(); }), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Store(StoreHeader(session + 1, 1, 4), {"1234"}).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Delete(session + 1, 1).error_code(), grpc::NOT_FOUND);
  ASSERT_TRUE(Store(StoreHeader(session, 1, 4), {"1234"}).ok());
  EXPECT_EQ(Store(StoreHeader(session, 1, 4), {"1234"}).error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(Sessions(), 1);
}

TEST_F(ServerTest, AStoreThatEndsEarlyGivesItsRoomBack) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  EXPECT_EQ(Store(StoreHeader(session, 1, 100), {"short"}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Store(StoreHeader(session, 1, 100), {std::string(101, 'x')}).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(OnStrand([this] { return TheSession().announced.empty(); }));
}

TEST_F(ServerTest, AStoreIsNotReadBeforeThereIsRoom) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  OnStrand([this] { return TheSession().full = true; });
  const std::string big(8 << 20, 'x');
  auto stored = std::async(std::launch::async, [&] { return Store(StoreHeader(session, 1, big.size()), {big}); });
  ASSERT_TRUE(Eventually([this] { return TheSession().waiting.size() == 1; }));
  EXPECT_TRUE(OnStrand([this] { return TheSession().host_buffers.empty(); }));
  OnStrand([this] { return Admit(1); });
  EXPECT_TRUE(stored.get().ok());
  EXPECT_EQ(OnStrand([this] { return TheSession().host_buffers.at(1).size(); }), big.size());
}

TEST_F(ServerTest, AStoreThatWaitsForRoomEndsWithItsSession) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  OnStrand([this] { return TheSession().full = true; });
  auto stored = std::async(std::launch::async, [&] { return Store(StoreHeader(session, 1, 4), {"data"}); });
  ASSERT_TRUE(Eventually([this] { return TheSession().waiting.size() == 1; }));
  stream.reset();
  EXPECT_EQ(stored.get().error_code(), grpc::CANCELLED);
}

// gRPC's limit of pending requests must not apply: jax opens this many at once, and one refused call would end the session.
TEST_F(ServerTest, FourThousandStoresAtOnce) {
  Start();
  auto stream = Open();
  const uint64_t session = stream->Init();
  constexpr int kCount = 4000;
  struct Call {
    grpc::ClientContext context;
    xla::ifrt::proxy::GrpcHostBufferStoreResponse response;
    std::unique_ptr<grpc::ClientAsyncWriter<xla::ifrt::proxy::GrpcHostBufferStoreRequest>> writer;
    grpc::Status status;
    int step = 0;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kCount; ++i) {
    auto& call = *calls.emplace_back(std::make_unique<Call>());
    call.context.AddMetadata(kStoreHeader, StoreHeader(session, i + 1, 4));
    call.writer = stub_->AsyncHostBufferStore(&call.context, &call.response, &queue, &call);
  }
  int done = 0;
  xla::ifrt::proxy::GrpcHostBufferStoreRequest request;
  request.set_data("data");
  while (done < kCount) {
    void* tag;
    bool ok;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    auto& call = *static_cast<Call*>(tag);
    switch (call.step++) {
      case 0:
        call.writer->Write(request, &call);
        break;
      case 1:
        call.writer->WritesDone(&call);
        break;
      case 2:
        call.writer->Finish(&call.status, &call);
        break;
      default:
        ++done;
        break;
    }
  }
  for (const auto& call : calls) ASSERT_TRUE(call->status.ok()) << call->status.error_message();
  EXPECT_EQ(OnStrand([this] { return cluster_.sessions.begin()->second->host_buffers.size(); }), kCount);
}

class SharedDirectoryTest : public ServerTest {
 protected:
  SharedDirectoryTest() : directory_(std::filesystem::path(::testing::TempDir()) / absl::StrCat("pw_shared_", getpid())) {
    std::filesystem::create_directories(directory_);
    ServerOptions options;
    options.shared_directory = directory_;
    Start(options);
  }
  ~SharedDirectoryTest() override { std::filesystem::remove_all(directory_); }
  void WriteFile(const std::string& name, const std::string& data) { std::ofstream(directory_ / name) << data; }

  const std::filesystem::path directory_;
};

TEST_F(SharedDirectoryTest, FilesBecomeHostBuffers) {
  auto stream = Open();
  const uint64_t session = stream->Init();
  WriteFile("lt_7", "contents");
  ASSERT_TRUE(ReadFromDisk(session, 7, 8).ok());
  std::string data;
  int messages;
  ASSERT_TRUE(Lookup(session, 7, data, messages).ok());
  EXPECT_EQ(data, "contents");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "lt_7"));
}

TEST_F(SharedDirectoryTest, AFileIsNotTakenBeforeThereIsRoom) {
  auto stream = Open();
  const uint64_t session = stream->Init();
  OnStrand([this] { return TheSession().full = true; });
  WriteFile("lt_7", "contents");
  auto read = std::async(std::launch::async, [&] { return ReadFromDisk(session, 7, 8); });
  ASSERT_TRUE(Eventually([this] { return TheSession().waiting.size() == 1; }));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "lt_7"));
  OnStrand([this] { return Admit(7); });
  EXPECT_TRUE(read.get().ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "lt_7"));
  OnStrand([this] { return TheSession().full = false; });
  // A file that is too large is dropped.
  OnStrand([this] { return TheSession().staged_limit = 7; });
  WriteFile("lt_9", "contents");
  EXPECT_TRUE(ReadFromDisk(session, 9, 8).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "lt_9"));
  EXPECT_EQ(OnStrand([this] { return TheSession().failed.at(9).code(); }), absl::StatusCode::kResourceExhausted);
  // A missing file gives its room back.
  EXPECT_EQ(ReadFromDisk(session, 8, 7).error_code(), grpc::NOT_FOUND);
  EXPECT_TRUE(OnStrand([this] { return TheSession().announced.empty(); }));
}

TEST_F(SharedDirectoryTest, AClientMayHaveAFolderOfItsOwn) {
  std::filesystem::create_directory(directory_ / "client-1");
  WriteFile("client-1/lt_7", "contents");
  Stream own(*stub_, Metadata(25, {{kSharedSubdirectoryKey, std::string("client-1")}}));
  EXPECT_TRUE(ReadFromDisk(own.Init(), 7, 8).ok());
  Stream outside(*stub_, Metadata(25, {{kSharedSubdirectoryKey, std::string("../etc")}}));
  EXPECT_EQ(ReadFromDisk(outside.Init(), 7, 8).error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(SharedDirectoryTest, OnlyPlainFilesOfTheAnnouncedSizeAreRead) {
  auto stream = Open();
  const uint64_t session = stream->Init();
  EXPECT_EQ(ReadFromDisk(session, 1, 8).error_code(), grpc::NOT_FOUND);
  WriteFile("lt_2", "contents");
  EXPECT_EQ(ReadFromDisk(session, 2, 9).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReadFromDisk(session, 2, -1).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReadFromDisk(session + 1, 2, 8).error_code(), grpc::NOT_FOUND);
  std::filesystem::create_symlink(directory_ / "lt_2", directory_ / "lt_3");
  EXPECT_EQ(ReadFromDisk(session, 3, 8).error_code(), grpc::NOT_FOUND);
  std::filesystem::create_directory(directory_ / "lt_4");
  EXPECT_EQ(ReadFromDisk(session, 4, 8).error_code(), grpc::INVALID_ARGUMENT);
  ASSERT_EQ(mkfifo((directory_ / "lt_5").c_str(), 0600), 0);
  EXPECT_EQ(ReadFromDisk(session, 5, 0).error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(ServerTest, WithoutASharedDirectoryTheClientIsToldWhatToDo) {
  Start();
  EXPECT_THAT(ReadFromDisk(1, 1, 8).error_message(), HasSubstr("IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY"));
}

}  // namespace
}  // namespace pw::frontend
