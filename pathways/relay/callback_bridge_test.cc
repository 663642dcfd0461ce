#include "pathways/relay/callback_bridge.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/few_files.h"
#include "pathways/net/socket.h"
#include "pathways/v1/client.grpc.pb.h"

namespace pw::relay {
namespace {

using pathways::v1::HostCallAnswer;
using pathways::v1::HostCallRequest;

// Sends two calls at once when a companion has named its token, and keeps what it answers.
class CallingController : public pathways::v1::ClientCompanion::Service {
 public:
  CallingController() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~CallingController() override { Kill(); }
  void Kill() {
    if (server_ != nullptr) server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
    server_ = nullptr;
  }

  grpc::Status HostCalls(grpc::ServerContext* context,
                         grpc::ServerReaderWriter<HostCallRequest, HostCallAnswer>* stream) override {
    HostCallAnswer message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    Keep(message);
    if (message.companion() == "refused")
      return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "a companion of that name is here");
    for (uint64_t call : {1, 2}) {
      HostCallRequest request;
      request.set_call(call);
      request.set_callback(5);
      auto* operand = request.add_operands();
      operand->set_dtype(6);
      operand->add_dims(3);
      operand->set_data("abc");
      stream->Write(request);
    }
    while (stream->Read(&message)) Keep(message);
    Keep({});
    return grpc::Status::OK;
  }

  HostCallAnswer Next() {
    std::unique_lock<std::mutex> lock(mu_);
    wake_.wait(lock, [&] { return !kept_.empty(); });
    HostCallAnswer answer = kept_.front();
    kept_.pop_front();
    return answer;
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Keep(HostCallAnswer answer) {
    std::lock_guard<std::mutex> lock(mu_);
    kept_.push_back(std::move(answer));
    wake_.notify_all();
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<HostCallAnswer> kept_;
};

// What the Python package does, with blocking calls.
class FakePython {
 public:
  explicit FakePython(const std::string& path) { socket_.connect(asio::local::stream_protocol::endpoint(path)); }

  void Send(const std::string& json, const std::string& payload = "") {
    std::string message(4, '\0');
    message[0] = static_cast<char>(json.size());
    asio::write(socket_, asio::buffer(message + json + payload));
  }
  // A header, or nothing when the relay has closed.
  std::optional<std::string> ReadHeader() {
    uint8_t length[4];
    asio::error_code error;
    asio::read(socket_, asio::buffer(length), error);
    if (error) return std::nullopt;
    return ReadBytes(length[0] | length[1] << 8);
  }
  std::string ReadBytes(size_t size) {
    std::string bytes(size, '\0');
    asio::read(socket_, asio::buffer(bytes));
    return bytes;
  }
  void Close() { socket_.close(); }

 private:
  asio::io_context io_;
  asio::local::stream_protocol::socket socket_{io_};
};

class CallbackBridgeTest : public ::testing::Test {
 protected:
  CallbackBridgeTest() : path_(absl::StrCat(::testing::TempDir(), "/pw-bridge-", getpid(), ".sock")) {
    auto bridge = CallbackBridge::Start(path_, controller_.address());
    EXPECT_TRUE(bridge.ok()) << bridge.status();
    bridge_ = *std::move(bridge);
  }

  CallingController controller_;
  const std::string path_;
  std::unique_ptr<CallbackBridge> bridge_;
};

TEST_F(CallbackBridgeTest, CarriesCallsDownAndAnswersUp) {
  FakePython python(path_);
  python.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
  for (int call : {1, 2}) {
    EXPECT_EQ(python.ReadHeader(),
              absl::StrCat("{\"call\":", call, ",\"callback\":5,\"operands\":[{\"dtype\":\"u8\",\"dims\":[3],\"bytes\":3}]}"));
    EXPECT_EQ(python.ReadBytes(3), "abc");
  }
  python.Send(R"({"call":2,"ok":true,"results":[2,0,1]})", "xyz");
  python.Send(R"({"call":1,"ok":false,"code":13,"message":"ValueError"})");
  const HostCallAnswer second = controller_.Next();
  EXPECT_EQ(second.call(), 2u);
  ASSERT_EQ(second.results_size(), 3);
  EXPECT_EQ(second.results(0), "xy");
  EXPECT_EQ(second.results(2), "z");
  const HostCallAnswer first = controller_.Next();
  EXPECT_EQ(first.status().code(), 13);
  EXPECT_EQ(first.status().message(), "ValueError");
}

TEST_F(CallbackBridgeTest, PythonGoingEndsTheChannel) {
  FakePython python(path_);
  python.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
  ASSERT_TRUE(python.ReadHeader());
  python.Close();
  EXPECT_EQ(controller_.Next().call(), 0u);  // the end
}

TEST_F(CallbackBridgeTest, TheControllerGoingEndsTheSocket) {
  FakePython python(path_);
  python.Send(R"({"companion":"token"})");
  for (int call : {1, 2}) {
    ASSERT_TRUE(python.ReadHeader()) << call;
    python.ReadBytes(3);
  }
  controller_.Kill();
  EXPECT_EQ(python.ReadHeader(), std::nullopt);
}

TEST_F(CallbackBridgeTest, ARefusedTokenEndsTheSocket) {
  FakePython python(path_);
  python.Send(R"({"companion":"refused"})");
  EXPECT_EQ(python.ReadHeader(), std::nullopt);
}

TEST_F(CallbackBridgeTest, AnAnswerBeforeTheTokenEndsTheSocketOnly) {
  FakePython wrong(path_);
  wrong.Send(R"({"call":1,"ok":true,"results":[]})");
  EXPECT_EQ(wrong.ReadHeader(), std::nullopt);
  FakePython right(path_);
  right.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
}

// Once the relay took memory for whatever was announced.
TEST_F(CallbackBridgeTest, ResultsOfASizeThatNothingHasEndTheSocketOnly) {
  FakePython wrong(path_);
  wrong.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
  wrong.Send(R"({"call":1,"ok":true,"results":[9007199254740992,9007199254740992]})", "a little of it");
  wrong.Close();
  EXPECT_EQ(controller_.Next().call(), 0u);  // the end
  FakePython right(path_);
  right.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
}

// Once it never listened again.
TEST_F(CallbackBridgeTest, WithoutDescriptorsConnectionsWait) {
  const net::SocketAddress where = net::UnixSocketAddress(path_);
  {
    const FewFiles one(1);
    const net::Fd last(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(last.get(), where.get(), where.size), 0);
    pollfd nothing = {last.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&nothing, 1, 150), 0);
  }
  FakePython python(path_);
  python.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
}

TEST_F(CallbackBridgeTest, EndsWithConnectionsOpen) {
  FakePython python(path_);
  python.Send(R"({"companion":"token"})");
  EXPECT_EQ(controller_.Next().companion(), "token");
  bridge_ = nullptr;
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST(CallbackBridgeStartTest, APathThatCannotBeIsAClearError) {
  for (const std::string& path : {std::string("/nowhere/at/all.sock"), std::string(200, 'x')}) {
    EXPECT_FALSE(CallbackBridge::Start(path, "127.0.0.1:1").ok());
  }
}

}  // namespace
}  // namespace pw::relay
