#include "pathways/callbacks/call_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/few_files.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/net/sockets/socket.h"

namespace pw::callbacks {
namespace {

using Results = absl::StatusOr<std::vector<Bytes>>;

// Plays the Python package, with blocking calls.
class FakePython {
 public:
  explicit FakePython(const std::string& path) { socket_.connect(asio::local::stream_protocol::endpoint(path)); }

  void Send(const std::string& json, const std::string& payload = "") {
    std::string message(4, '\0');
    message[0] = static_cast<char>(json.size());
    asio::write(socket_, asio::buffer(message + json + payload));
  }
  // Returns a header, or nothing once the door has closed the connection.
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

// A front door that knows processes by their tokens.
class CallSocketTest : public ::testing::Test {
 protected:
  CallSocketTest() : path_(absl::StrCat(::testing::TempDir(), "/pw-calls-", getpid(), ".sock")) {
    CallSocket::Door door;
    door.post = [this](absl::AnyInvocable<void()&&> task) { strand_.Post(std::move(task)); };
    door.add = [this](const std::string& token, std::shared_ptr<session::HostCallHandler> handler) {
      if (!handlers_.emplace(token, std::move(handler)).second)
        return absl::AlreadyExistsError("another process with this token");
      Changed();
      return absl::OkStatus();
    };
    door.remove = [this](const std::string& token) {
      handlers_.erase(token);
      Changed();
    };
    auto socket = CallSocket::Start(path_, std::move(door));
    EXPECT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
  }
  ~CallSocketTest() override { socket_ = nullptr; }

  // Runs a function on the strand and returns its result.
  template <class F>
  auto On(F function) {
    auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
    strand_.Post([task] { (*task)(); });
    return task->get_future().get();
  }
  // Waits until processes have been added and removed `changes` times in all.
  void AwaitChanges(int changes) {
    auto seen = std::make_shared<std::promise<void>>();
    On([&] {
      if (changes <= changes_)
        seen->set_value();
      else
        awaited_.emplace_back(changes, seen);
      return true;
    });
    seen->get_future().wait();
  }
  void Changed() {  // on the strand
    ++changes_;
    std::erase_if(awaited_, [this](auto& awaited) {
      if (awaited.first > changes_) return false;
      awaited.second->set_value();
      return true;
    });
  }
  // Calls function 5 of the process with the bytes "abc".
  std::future<Results> Call(const std::string& token = "token") {
    auto done = std::make_shared<std::promise<Results>>();
    On([&] {
      session::HostCall call{5, {{buffers::DType::kU8, {3}, std::nullopt}}, {Bytes::Copy("abc")}};
      handlers_.at(token)->OnHostCall(std::move(call), [done](Results results) { done->set_value(std::move(results)); });
      return 0;
    });
    return done->get_future();
  }
  // Returns when the door knows the process. `changes`: the number of processes that have been added and removed then.
  std::unique_ptr<FakePython> Named(const std::string& token, int changes = 1) {
    auto python = std::make_unique<FakePython>(path_);
    python->Send(absl::StrCat(R"({"companion":")", token, R"("})"));
    AwaitChanges(changes);
    return python;
  }

  const std::string path_;
  std::map<std::string, std::shared_ptr<session::HostCallHandler>> handlers_;  // strand
  int changes_ = 0;                                                            // strand
  std::vector<std::pair<int, std::shared_ptr<std::promise<void>>>> awaited_;   // strand
  std::unique_ptr<CallSocket> socket_;
  ThreadPool strand_{"strand", 1};
};

TEST_F(CallSocketTest, CarriesCallsDownAndAnswersUp) {
  const auto python = Named("token");
  auto first = Call(), second = Call();
  for (int call : {1, 2}) {
    EXPECT_EQ(python->ReadHeader(),
              absl::StrCat("{\"call\":", call, ",\"callback\":5,\"operands\":[{\"dtype\":\"u8\",\"dims\":[3],\"bytes\":3}]}"));
    EXPECT_EQ(python->ReadBytes(3), "abc");
  }
  python->Send(R"({"call":2,"ok":true,"results":[2,0,1]})", "xyz");
  python->Send(R"({"call":1,"ok":false,"code":13,"message":"ValueError"})");
  const Results results = second.get();
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3);
  EXPECT_EQ((*results)[0].view(), "xy");
  EXPECT_TRUE((*results)[1].empty());
  EXPECT_EQ((*results)[2].view(), "z");
  EXPECT_EQ(first.get().status(), absl::InternalError("ValueError"));
}

TEST_F(CallSocketTest, CallsFailWhenTheProcessGoes) {
  const auto python = Named("token");
  auto call = Call();
  ASSERT_TRUE(python->ReadHeader());
  const auto handler = On([this] { return handlers_.at("token"); });
  python->Close();
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kUnavailable);
  AwaitChanges(2);
  EXPECT_TRUE(On([this] { return handlers_.empty(); }));
  const absl::Status later = On([&] {
    absl::Status status;
    handler->OnHostCall({}, [&status](Results results) { status = results.status(); });
    return status;
  });
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << "a session may still have it";
}

TEST_F(CallSocketTest, CallsFailWhenTheDoorGoes) {
  const auto python = Named("token");
  auto call = Call();
  ASSERT_TRUE(python->ReadHeader());
  python->ReadBytes(3);
  socket_ = nullptr;
  EXPECT_EQ(call.get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(python->ReadHeader(), std::nullopt);
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(CallSocketTest, ATokenNamesOneProcess) {
  const auto first = Named("token");
  FakePython second(path_);
  second.Send(R"({"companion":"token"})");
  EXPECT_EQ(second.ReadHeader(), std::nullopt);
  auto call = Call();
  EXPECT_TRUE(first->ReadHeader()) << "the end of the second does not concern the first";
  first->ReadBytes(3);
  first->Send(R"({"call":1,"ok":true,"results":[]})");
  EXPECT_TRUE(call.get().ok());
}

TEST_F(CallSocketTest, WhatIsNoAnswerEndsThatConnectionOnly) {
  FakePython early(path_);
  early.Send(R"({"call":1,"ok":true,"results":[]})");
  EXPECT_EQ(early.ReadHeader(), std::nullopt);
  const auto unasked = Named("unasked");
  unasked->Send(R"({"call":1,"ok":true,"results":[]})");
  EXPECT_EQ(unasked->ReadHeader(), std::nullopt);
  AwaitChanges(2);
  const auto right = Named("token", 3);
  auto call = Call();
  EXPECT_TRUE(right->ReadHeader());
}

TEST_F(CallSocketTest, ResultsOfASizeThatNothingHasEndTheSocketOnly) {
  const auto wrong = Named("wrong");
  wrong->Send(R"({"call":1,"ok":true,"results":[9007199254740992,9007199254740992]})", "a little of it");
  wrong->Close();
  AwaitChanges(2);
  Named("token", 3);
}

TEST_F(CallSocketTest, WithoutDescriptorsConnectionsWait) {
  const net::SocketAddress where = net::UnixSocketAddress(path_);
  {
    const FewFiles one(1);
    const net::Fd last(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(last.get(), where.get(), where.size), 0);
    pollfd nothing = {last.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&nothing, 1, 150), 0);
  }
  Named("token");
}

TEST(CallSocketStartTest, APathThatCannotBeIsAClearError) {
  for (const std::string& path : {std::string("/nowhere/at/all.sock"), std::string(200, 'x')}) {
    const auto socket = CallSocket::Start(path, {});
    ASSERT_FALSE(socket.ok());
    EXPECT_THAT(socket.status().message(), ::testing::HasSubstr(path));
  }
}

}  // namespace
}  // namespace pw::callbacks
