#include "pathways/net/sockets/file_socket.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/address.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/testing.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;

Fd Holding(const std::string& text) {
  Fd file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

std::string ContentsOf(const Fd& file) {
  struct stat info = {};
  EXPECT_EQ(::fstat(file.get(), &info), 0);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  EXPECT_EQ(::pread(file.get(), text.data(), text.size(), 0), info.st_size);
  return text;
}

// Remembers the header of each packet and the contents of its file.
class Remembering : public FileSocket::Handler {
 public:
  void OnFile(std::string header, Fd file) override {
    const std::lock_guard<std::mutex> lock(mu_);
    EXPECT_FALSE(closed_.has_value());
    packets_.push_back(file.valid() ? absl::StrCat(header, "=", ContentsOf(file)) : header);
    changed_.notify_all();
  }
  void OnFilesClosed(const absl::Status& reason) override {
    const std::lock_guard<std::mutex> lock(mu_);
    EXPECT_FALSE(closed_.has_value());
    closed_ = reason;
    changed_.notify_all();
  }
  std::vector<std::string> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return packets_.size() >= count || closed_.has_value(); }));
    EXPECT_GE(packets_.size(), count) << closed_.value_or(absl::OkStatus());
    return packets_;
  }
  absl::Status WaitClosed() {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return closed_.has_value(); }));
    return closed_.value_or(absl::OkStatus());
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::string> packets_;
  std::optional<absl::Status> closed_;
};

class FileSocketTest : public ::testing::Test {
 protected:
  // Both ends, each with its handler.
  void Connect() {
    const std::string key = listener_->Expect([this](std::unique_ptr<FileSocket> socket) { accepted_.Put(std::move(socket)); });
    auto client = transport_.ConnectForFiles(listener_->address(), key);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    server_ = accepted_.Take();
    client_->Start(&at_client_);
    server_->Start(&at_server_);
  }
  // Returns a client's end that may send any bytes.
  Fd ConnectRaw() {
    const std::string key = listener_->Expect([this](std::unique_ptr<FileSocket> socket) { accepted_.Put(std::move(socket)); });
    Fd raw;
    EXPECT_EQ(StartConnect(WithoutLookup(*ParseAddress(listener_->address())), &raw, SOCK_SEQPACKET), 0);
    EXPECT_EQ(::send(raw.get(), key.data(), key.size(), 0), static_cast<ssize_t>(key.size()));
    server_ = accepted_.Take();
    server_->Start(&at_server_);
    return raw;
  }
  void Send(FileSocket& socket, const std::string& header, const std::string& text) {
    auto file = std::make_shared<Fd>(Holding(text));
    const int number = file->get();
    socket.Send(header, number, std::move(file));
  }

  Remembering at_client_, at_server_;
  Mailbox<std::unique_ptr<FileSocket>> accepted_;
  AsioTransport transport_;
  std::unique_ptr<FileListener> listener_ = *transport_.ListenForFiles();
  std::unique_ptr<FileSocket> client_, server_;
};

TEST_F(FileSocketTest, FilesGoBothWays) {
  Connect();
  EXPECT_TRUE(client_->same_user());
  EXPECT_TRUE(server_->same_user());
  Send(*client_, "up", "from the client");
  Send(*server_, "down", "from the server");
  client_->Send("no file", -1, nullptr);
  EXPECT_THAT(at_server_.Wait(2), ::testing::ElementsAre("up=from the client", "no file"));
  EXPECT_THAT(at_client_.Wait(1), ::testing::ElementsAre("down=from the server"));
}

// More than the socket holds at once.
TEST_F(FileSocketTest, ManyPacketsComeInOrder) {
  constexpr int kPackets = 2000;
  Connect();
  const auto file = std::make_shared<Fd>(Holding("x"));
  for (int i = 0; i < kPackets; ++i) client_->Send(absl::StrCat(i), file->get(), file);
  const std::vector<std::string> packets = at_server_.Wait(kPackets);
  ASSERT_EQ(packets.size(), kPackets);
  for (int i = 0; i < kPackets; ++i) EXPECT_EQ(packets[i], absl::StrCat(i, "=x"));
}

TEST_F(FileSocketTest, OnlyTheKeyAdmits) {
  auto stranger = transport_.ConnectForFiles(listener_->address(), "a guess");
  ASSERT_TRUE(stranger.ok());
  Remembering at_stranger;
  (*stranger)->Start(&at_stranger);
  EXPECT_THAT(at_stranger.WaitClosed().message(), HasSubstr("closed by the peer"));
  Connect();  // others do not notice
  Send(*client_, "up", "text");
  EXPECT_EQ(at_server_.Wait(1).size(), 1);
}

TEST_F(FileSocketTest, AKeyAdmitsOnceAndNotAfterForget) {
  int admitted = 0;
  const std::string once = listener_->Expect([&](std::unique_ptr<FileSocket> socket) { accepted_.Put(std::move(socket)); });
  const std::string withdrawn = listener_->Expect([&](std::unique_ptr<FileSocket>) { ++admitted; });
  listener_->Forget(withdrawn);
  auto first = transport_.ConnectForFiles(listener_->address(), once);
  const auto kept = accepted_.Take();
  for (const std::string& key : {once, withdrawn}) {
    auto again = transport_.ConnectForFiles(listener_->address(), key);
    ASSERT_TRUE(again.ok());
    Remembering handler;
    (*again)->Start(&handler);
    EXPECT_FALSE(handler.WaitClosed().ok());
  }
  EXPECT_EQ(admitted, 0);
}

TEST_F(FileSocketTest, NobodyListensElsewhere) {
  const auto socket = transport_.ConnectForFiles("unix:@pathways-nobody-is-here", "key");
  EXPECT_TRUE(absl::IsUnavailable(socket.status())) << socket.status();
}

TEST_F(FileSocketTest, TheEndOfOneIsToldToTheOther) {
  Connect();
  Send(*client_, "last", "words");
  EXPECT_EQ(at_server_.Wait(1).size(), 1);
  client_ = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(at_server_.WaitClosed()));
}

TEST_F(FileSocketTest, APacketWithTwoFilesEndsTheSocket) {
  const Fd raw = ConnectRaw();
  const Fd one = Holding("1"), two = Holding("2");
  const int files[] = {one.get(), two.get()};
  char text[] = "two";
  iovec piece = {text, sizeof(text)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(files))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(files));
  std::memcpy(CMSG_DATA(rights), files, sizeof(files));
  ASSERT_GT(::sendmsg(raw.get(), &message, 0), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(at_server_.WaitClosed()));
}

TEST_F(FileSocketTest, AMessageThatIsTooLongEndsTheSocket) {
  const Fd raw = ConnectRaw();
  const std::string text(FileSocket::kMostHeaderBytes + 1, 'x');
  ASSERT_GT(::send(raw.get(), text.data(), text.size(), 0), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(at_server_.WaitClosed()));
}

// ---- memory in passed files (shared_memory.h) ----

TEST(OpenPassedTest, MapsThePartThatIsMeant) {
  const auto bytes = OpenPassed(Holding("0123456789"), {.offset = 2, .size = 3}, true);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->view(), "234");
  EXPECT_TRUE(NameOf(*bytes).has_value());
}

TEST(OpenPassedTest, RefusesWhatAFileDoesNotHold) {
  EXPECT_TRUE(absl::IsInvalidArgument(OpenPassed(Holding("0123"), {.offset = 2, .size = 3}, true).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenPassed(Holding("0123"), {.offset = ~uint64_t{0}, .size = 3}, true).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenPassed(Fd(), {.size = 1}, true).status()));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd write_end(ends[1]);
  EXPECT_FALSE(OpenPassed(Fd(ends[0]), {.size = 0}, true).ok()) << "a pipe";
}

// Otherwise the sender could shrink the file and make the reader touch missing memory.
TEST(OpenPassedTest, TakesOfStrangersOnlyWhatCannotShrink) {
  EXPECT_TRUE(absl::IsInvalidArgument(OpenPassed(Holding("0123"), {.size = 4}, false).status()));
  SharedMemoryFactory factory;
  auto memory = factory.Create(4);
  ASSERT_TRUE(memory.ok());
  std::memcpy(memory->data(), "abcd", 4);
  const Bytes sealed = std::move(*memory).Freeze();
  const auto bytes = OpenPassed(Fd(::dup(NameOf(sealed)->fd)), {.size = 4}, false);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->view(), "abcd");
}

// The sender and the receiver must not share one open file: then their locks would be one lock.
TEST(OpenPassedTest, LeasedMemoryIsNotFilledAnewWhileItIsRead) {
  SharedMemoryFactory factory(8, {.always = 1 << 20, .at_most = 1 << 20});
  auto filled = [&](char letter) {
    auto memory = factory.Create(4096, 7);
    EXPECT_TRUE(memory.ok());
    std::memset(memory->data(), letter, 4096);
    return std::move(*memory).Freeze();
  };
  Bytes given = filled('a');
  const SharedName name = *NameOf(given);
  ASSERT_TRUE(name.leased);
  auto taken = OpenPassed(Fd(::dup(name.fd)), {.size = 4096, .leased = true}, true);
  ASSERT_TRUE(taken.ok()) << taken.status();
  given = Bytes();
  EXPECT_NE(NameOf(filled('b'))->inode, name.inode);
  EXPECT_EQ(taken->view(), std::string(4096, 'a'));
  taken = Bytes();
  EXPECT_EQ(NameOf(filled('c'))->inode, name.inode) << "nobody has it any more";
}

}  // namespace
}  // namespace pw::net
