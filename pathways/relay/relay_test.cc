#include "pathways/relay/relay.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"
#include "pathways/relay/store_ahead.h"
#include "pathways/relay/testing/bulk_controller.h"

namespace pw::relay {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace): a test of that protocol

constexpr uint64_t kSession = 4711;

// Opens sessions, answers layouts and destructs, leaves check_value_ready open, keeps host buffers.
class FakeController : public GrpcIfrtService::Service {
 public:
  FakeController() { Listen(0); }
  ~FakeController() override { Kill(); }

  void Listen(int port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  // Ends all connections without a word to the calls.
  void Kill() {
    if (server_ == nullptr) return;
    server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
    server_ = nullptr;
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status GetVersion(grpc::ServerContext* context, const GrpcGetVersionRequest* request,
                          GrpcGetVersionResponse* response) override {
    *response->mutable_version() = request->max_version();
    return grpc::Status::OK;
  }

  grpc::Status IfrtSession(grpc::ServerContext* context, grpc::ServerReaderWriter<IfrtResponse, IfrtRequest>* stream) override {
    if (context->client_metadata().count("ifrt-proxy-grpc-ifrt-session-metadata-bin") == 0) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no session metadata");
    }
    context->AddInitialMetadata("greeting", "hello");
    if (!bulk_line_.empty()) context->AddInitialMetadata("pathways-bulk-line", bulk_line_);
    IfrtRequest request;
    while (stream->Read(&request)) {
      IfrtResponse response;
      response.mutable_response_metadata()->set_op_id(request.request_metadata().op_id());
      if (request.has_init_request()) {
        response.mutable_init_response()->set_session_id(kSession);
      } else if (request.has_get_default_layout_request()) {
        response.mutable_get_default_layout_response()->set_serialized_pjrt_layout("{from the controller}");
      } else if (request.has_compile_request()) {
        return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no compiling here");
      } else {
        continue;  // left open
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  grpc::Status HostBufferStore(grpc::ServerContext* context, grpc::ServerReader<GrpcHostBufferStoreRequest>* reader,
                               GrpcHostBufferStoreResponse* response) override {
    GrpcHostBufferStoreRequest chunk;
    const auto header = context->client_metadata().find("ifrt-proxy-grpc-host-buffer-store-metadata-bin");
    GrpcHostBufferStoreMetadata metadata;
    if (header != context->client_metadata().end())
      metadata.ParseFromArray(header->second.data(), static_cast<int>(header->second.size()));
    handle_ = metadata.handle();
    while (reader->Read(&chunk)) {
      stored_ += chunk.data().size();
      if (!chunk.data().empty()) last_ = chunk.data().back();
    }
    return stored_ == 1 ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "one byte is too few") : grpc::Status::OK;
  }

  grpc::Status HostBufferReadFromDisk(grpc::ServerContext*, const GrpcHostBufferReadFromDiskRequest*,
                                      GrpcHostBufferReadFromDiskResponse*) override {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the controller was asked");
  }

  std::string bulk_line_;
  std::atomic<size_t> stored_ = 0;
  std::atomic<uint64_t> handle_ = 0;
  std::atomic<char> last_ = 0;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class RelayTest : public ::testing::Test {
 protected:
  explicit RelayTest(const std::string& files = "") {
    auto relay = Relay::Start("127.0.0.1:0", controller_.address(), files, &line_);
    EXPECT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
    stub_ = GrpcIfrtService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", relay_->port()), grpc::InsecureChannelCredentials()));
  }

  using Stream = grpc::ClientReaderWriter<IfrtRequest, IfrtResponse>;
  std::unique_ptr<Stream> Open() {
    GrpcIfrtSessionMetadata metadata;
    return Open(metadata.SerializeAsString() + std::string("\0\xff", 2));
  }
  std::unique_ptr<Stream> Open(const std::string& metadata) {
    session_ = std::make_unique<grpc::ClientContext>();
    session_->AddMetadata("ifrt-proxy-grpc-ifrt-session-metadata-bin", metadata);
    auto stream = stub_->IfrtSession(session_.get());
    IfrtRequest init;
    init.mutable_request_metadata()->set_op_id(1);
    init.mutable_init_request();
    EXPECT_TRUE(stream->Write(init));
    IfrtResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.init_response().session_id(), kSession);
    return stream;
  }

  static IfrtRequest CheckReady(uint64_t op_id) {
    IfrtRequest request;
    request.mutable_request_metadata()->set_op_id(op_id);
    request.mutable_check_value_ready_request()->add_value_handles(1);
    return request;
  }
  static IfrtRequest Layout(uint64_t op_id) {
    IfrtRequest request;
    request.mutable_request_metadata()->set_op_id(op_id);
    request.mutable_get_default_layout_request()->add_dims(2);
    return request;
  }

  grpc::Status Store(size_t bytes) {
    GrpcHostBufferStoreMetadata metadata;
    metadata.set_session_id(kSession);
    metadata.set_buffer_size(bytes);
    grpc::ClientContext context;
    context.AddMetadata("ifrt-proxy-grpc-host-buffer-store-metadata-bin", metadata.SerializeAsString());
    GrpcHostBufferStoreResponse response;
    auto writer = stub_->HostBufferStore(&context, &response);
    for (size_t sent = 0; sent < bytes;) {
      GrpcHostBufferStoreRequest chunk;
      chunk.set_data(std::string(std::min<size_t>(1 << 20, bytes - sent), 'x'));
      sent += chunk.data().size();
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  FakeController controller_;
  ControllerLine line_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<GrpcIfrtService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> session_;
};

TEST_F(RelayTest, PassesUnaryCallsHeadersAndFrames) {
  GrpcGetVersionRequest request;
  request.mutable_max_version()->set_protocol_version(25);
  GrpcGetVersionResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->GetVersion(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.version().protocol_version(), 25);

  auto stream = Open();
  EXPECT_EQ(session_->GetServerInitialMetadata().count("greeting"), 1u);
  ASSERT_TRUE(stream->Write(Layout(2)));
  IfrtResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.get_default_layout_response().serialized_pjrt_layout(), "{from the controller}");
}

TEST_F(RelayTest, EndsTheSessionWhenTheClientFinishes) {
  auto stream = Open();
  stream->WritesDone();
  IfrtResponse answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(RelayTest, AnswersWhatIsOpenWhenTheControllerDies) {
  auto stream = Open();
  ASSERT_TRUE(stream->Write(CheckReady(2)));
  ASSERT_TRUE(stream->Write(CheckReady(3)));
  controller_.Kill();
  for (uint64_t op_id : {2, 3}) {
    IfrtResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.response_metadata().op_id(), op_id);
    EXPECT_EQ(answer.response_metadata().status().code(), static_cast<int>(absl::StatusCode::kUnavailable));
    EXPECT_NE(answer.response_metadata().status().message().find(controller_.address()), std::string::npos);
    EXPECT_NE(answer.response_metadata().status().message().find("clear_backends"), std::string::npos);
  }
}

TEST_F(RelayTest, AnswersEverythingAskedAfterTheControllerDied) {
  auto stream = Open();
  ASSERT_TRUE(stream->Write(CheckReady(2)));
  controller_.Kill();
  IfrtResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  ASSERT_TRUE(stream->Write(Layout(3)));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.get_default_layout_response().serialized_pjrt_layout(), "{0}");
  ASSERT_TRUE(stream->Write(CheckReady(4)));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.response_metadata().op_id(), 4u);
  EXPECT_EQ(answer.response_metadata().status().code(), static_cast<int>(absl::StatusCode::kUnavailable));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(RelayTest, ASessionThatTheControllerEndsKeepsItsCodeAndText) {
  auto stream = Open();
  IfrtRequest request;
  request.mutable_request_metadata()->set_op_id(2);
  request.mutable_compile_request();
  ASSERT_TRUE(stream->Write(request));
  IfrtResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.response_metadata().status().code(), static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_NE(answer.response_metadata().status().message().find("no compiling here"), std::string::npos);
}

TEST_F(RelayTest, HostBuffersPassAndFailSoftly) {
  EXPECT_TRUE(Store(20 << 20).ok());
  EXPECT_EQ(controller_.stored_, size_t{20 << 20});
  auto stream = Open();
  ASSERT_TRUE(stream->Write(CheckReady(2)));
  controller_.Kill();
  IfrtResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  const grpc::Status stored = Store(20 << 20);
  EXPECT_TRUE(stored.ok()) << stored.error_message();
  grpc::ClientContext delete_context;
  GrpcHostBufferDeleteResponse deleted;
  EXPECT_TRUE(stub_->HostBufferDelete(&delete_context, {}, &deleted).ok());
  grpc::ClientContext lookup_context;
  auto reader = stub_->HostBufferLookup(&lookup_context, {});
  GrpcHostBufferLookupResponse chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RelayTest, AStoreForASessionThatWasLostDoesNotReachANewController) {
  auto stream = Open();
  ASSERT_TRUE(stream->Write(CheckReady(2)));
  controller_.Kill();
  IfrtResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  controller_.Listen(std::stoi(controller_.address().substr(10)));
  EXPECT_TRUE(Store(1 << 20).ok());
  EXPECT_EQ(controller_.stored_, 0u);
}

TEST_F(RelayTest, WhatTheControllerRefusesIsRefused) {
  const grpc::Status status = Store(1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "one byte is too few");
}

TEST_F(RelayTest, ANewSessionReachesTheNextController) {
  auto stream = Open();
  controller_.Kill();
  session_->TryCancel();
  stream->Finish();
  controller_.Listen(std::stoi(controller_.address().substr(10)));
  session_ = nullptr;
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  GrpcGetVersionResponse response;
  // The relay's own channel may still be in its back-off: as the client does, ask until it answers.
  for (int i = 0; i < 1000; ++i) {
    grpc::ClientContext retry;
    if (stub_->GetVersion(&retry, {}, &response).ok()) break;
  }
  Open();
}

TEST_F(RelayTest, NoControllerIsNamedToTheClient) {
  controller_.Kill();
  grpc::ClientContext context;
  GrpcGetVersionResponse response;
  const grpc::Status status = stub_->GetVersion(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("no Pathways controller answers at " + controller_.address()), std::string::npos)
      << status.error_message();
}

// Clients that leave large arrays in files.
class FilesRelayTest : public RelayTest {
 protected:
  FilesRelayTest() : FilesRelayTest(MakeFolder()) {}
  explicit FilesRelayTest(const std::string& path) : RelayTest(path), path_(path) {}
  ~FilesRelayTest() override { std::filesystem::remove_all(path_); }

  static std::string MakeFolder() {
    std::string name = "/dev/shm/pw-test-XXXXXX";
    std::filesystem::create_directories(std::string(mkdtemp(name.data())) + "/mine");
    return name;
  }
  std::unique_ptr<Stream> OpenWithFolder(const std::string& name) {
    GrpcIfrtSessionMetadata metadata;
    (*metadata.mutable_initialization_data()->mutable_attributes())[ClientFiles::kFolderKey].set_string_value(name);
    return Open(metadata.SerializeAsString());
  }
  grpc::Status Leave(uint64_t handle, const std::string& contents, int64_t announced) {
    Write(handle, contents);
    return ReadFromDisk(handle, announced);
  }
  // Some more of a file.
  void Write(uint64_t handle, const std::string& contents) {
    std::ofstream(absl::StrCat(path_, "/mine/lt_", handle), std::ios::app) << contents;
  }
  grpc::Status ReadFromDisk(uint64_t handle, int64_t announced) {
    GrpcHostBufferReadFromDiskRequest request;
    request.mutable_metadata()->set_session_id(kSession);
    request.mutable_metadata()->set_handle(handle);
    request.mutable_metadata()->set_buffer_size(announced);
    grpc::ClientContext context;
    GrpcHostBufferReadFromDiskResponse response;
    return stub_->HostBufferReadFromDisk(&context, request, &response);
  }

  const std::string path_;
};

TEST_F(FilesRelayTest, TheControllerGetsWhatTheFileHolds) {
  auto stream = OpenWithFolder("mine");
  const std::string contents = std::string((5 << 20) + 3, 'x') + "y";
  const grpc::Status status = Leave(7, contents, static_cast<int64_t>(contents.size()));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(controller_.stored_, contents.size());
  EXPECT_EQ(controller_.handle_, 7u);
  EXPECT_EQ(controller_.last_, 'y');
  EXPECT_TRUE(std::filesystem::is_empty(path_ + "/mine"));
  controller_.stored_ = 0;
  EXPECT_EQ(Leave(8, "x", 1).error_message(), "one byte is too few") << "the controller's own answer";
  EXPECT_EQ(Leave(9, "abc", 4).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(FilesRelayTest, WithABulkLineTheFileGoesOverIt) {
  testing::BulkController bulk(4);
  controller_.bulk_line_ = bulk.announcement();
  auto stream = OpenWithFolder("mine");
  bulk.AwaitLine();
  // What comes before the line is open goes the other way.
  for (int tries = 0; tries < 10000 && bulk.stored() != "data"; ++tries) EXPECT_TRUE(Leave(7, "data", 4).ok());
  controller_.stored_ = 0;
  EXPECT_EQ(bulk.stored(), "data");
  EXPECT_EQ(Leave(8, "more data", 9).error_message(), "no room") << "the controller's own answer";

  bulk.silent = true;
  auto waiting = std::async(std::launch::async, [&] { return Leave(9, "data", 4); });
  bulk.AwaitQuestion();
  bulk.Close();
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(controller_.stored_, 4u) << "it goes the other way";
  line_.Close();  // before what it is connected to
}

// The line is in use, and the client has written half of an array of this size.
class HalfWrittenTest : public FilesRelayTest {
 protected:
  static constexpr int64_t kSize = StoreAhead::kWorthwhileBytes + 5;

  HalfWrittenTest() {
    controller_.bulk_line_ = bulk_.announcement();
    stream_ = OpenWithFolder("mine");
    bulk_.AwaitLine();
    for (uint64_t handle = 8; Leave(handle, "other", 5).ok(); ++handle) {  // until the line has no room for it
    }
    for (int64_t i = 0; i < kSize; ++i) contents_.push_back(static_cast<char>(i % 251 + 1));
    controller_.stored_ = 0;
    const int before = bulk_.stores;
    IfrtRequest request;
    request.mutable_request_metadata()->set_op_id(2);
    auto& made = *request.mutable_make_array_from_host_buffer_request();
    made.set_host_buffer_handle(7);
    made.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_U8);
    made.mutable_shape()->add_dims(kSize);
    EXPECT_TRUE(stream_->Write(request));
    Write(7, contents_.substr(0, kSize / 2));
    while (bulk_.stores == before) std::this_thread::yield();
  }
  ~HalfWrittenTest() override { line_.Close(); }  // before what it is connected to

  void WriteTheRest() { Write(7, contents_.substr(kSize / 2)); }

  testing::BulkController bulk_{kSize};
  std::unique_ptr<Stream> stream_;
  std::string contents_;
};

TEST_F(HalfWrittenTest, ALargeFileIsSentWhileItIsWritten) {
  WriteTheRest();
  const grpc::Status status = ReadFromDisk(7, kSize);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(bulk_.stored() == contents_);
  EXPECT_EQ(controller_.stored_, 0u);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/mine/lt_7"));
}

TEST_F(HalfWrittenTest, OneThatIsCutShortInTheMiddleIsTheErrorThatItAlwaysWas) {
  std::filesystem::resize_file(path_ + "/mine/lt_7", 100);
  EXPECT_EQ(ReadFromDisk(7, kSize).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  std::filesystem::remove(path_ + "/mine/lt_7");
  EXPECT_TRUE(Leave(7, contents_, kSize).ok()) << "the controller has forgotten what came of it";
  EXPECT_TRUE(bulk_.stored() == contents_);
}

TEST_F(HalfWrittenTest, WithoutItsLineItGoesTheOtherWay) {
  bulk_.Close();
  WriteTheRest();
  EXPECT_TRUE(ReadFromDisk(7, kSize).ok());
  EXPECT_EQ(controller_.stored_, static_cast<size_t>(kSize));
}

TEST_F(HalfWrittenTest, AClientThatGoesInTheMiddleLeavesNothing) {
  session_->TryCancel();
  IfrtResponse response;
  while (stream_->Read(&response)) {
  }
  (void)stream_->Finish();
  relay_ = nullptr;  // waits for the end of its calls
  EXPECT_FALSE(std::filesystem::exists(path_ + "/mine"));
}

TEST_F(FilesRelayTest, TheFolderGoesWithItsSession) {
  auto stream = OpenWithFolder("mine");
  std::ofstream(path_ + "/mine/lt_12") << "never asked for";
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  relay_ = nullptr;  // waits for the end of its calls
  EXPECT_FALSE(std::filesystem::exists(path_ + "/mine"));
}

TEST_F(FilesRelayTest, WithoutAFolderFilesAreTheControllersBusiness) {
  auto stream = Open();
  EXPECT_EQ(Leave(7, "contents", 8).error_message(), "the controller was asked");
}

TEST_F(FilesRelayTest, WhenTheControllerIsGoneTheFileIsTakenAndDropped) {
  auto stream = OpenWithFolder("mine");
  controller_.Kill();
  EXPECT_TRUE(Leave(7, std::string(1 << 20, 'x'), 1 << 20).ok());
}

TEST_F(RelayTest, ManyFramesBothWaysKeepTheirOrder) {
  auto stream = Open();
  constexpr int kFrames = 20'000;
  auto writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < kFrames; ++i) stream->Write(Layout(i + 2));
  });
  for (int i = 0; i < kFrames; ++i) {
    IfrtResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    ASSERT_EQ(answer.response_metadata().op_id(), static_cast<uint64_t>(i + 2));
  }
  writer.get();
}

TEST(RelayStartTest, APortInUseIsAClearError) {
  auto first = Relay::Start("127.0.0.1:0", "127.0.0.1:1", "");
  ASSERT_TRUE(first.ok());
  auto second = Relay::Start(absl::StrCat("127.0.0.1:", (*first)->port()), "127.0.0.1:1", "");
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("cannot listen"), absl::string_view::npos);
}

}  // namespace
}  // namespace pw::relay
