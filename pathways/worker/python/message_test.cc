#include "pathways/worker/python/message.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/sockets/file_socket.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

// A message as a process writes it.
std::string Message(const std::string& json, const std::string& parts = "") {
  std::string message(4, '\0');
  for (int i = 0; i < 4; ++i) message[i] = static_cast<char>(json.size() >> (8 * i));
  message += json;
  if (!parts.empty()) message.resize((message.size() + 63) / 64 * 64);
  return message + parts;
}

absl::StatusOr<PythonMessage> Read(const std::string& message) { return ReadPacket("M" + message, net::Fd()); }

TEST(PythonMessageTest, PartsLieOnBoundariesWhereTheHeaderSaysWhatTheyAre) {
  net::SharedMemoryFactory memory;
  for (int64_t size : {0, 1, 64, 100, 3000, 100'000}) {
    auto message = OutgoingMessage::Create("{\"call\":7", {size, 3, size}, &memory);
    ASSERT_TRUE(message.ok()) << message.status();
    for (size_t i : {0u, 2u}) std::memset(message->part(i), static_cast<int>('a' + i), static_cast<size_t>(size));
    std::memcpy(message->part(1), "xyz", 3);
    const bool in_file = !message->file().empty();
    EXPECT_EQ(in_file, message->packet()[0] == 'F') << size;
    EXPECT_LE(message->packet().size(), net::FileSocket::kMostHeaderBytes);
    const std::string text = in_file ? std::string(message->file().view()) : message->packet().substr(1);
    EXPECT_THAT(text, HasSubstr(absl::StrCat("{\"call\":7,\"bytes\":[", size, ",3,", size, "]}")));
    const size_t at = text.find("xyz");
    EXPECT_EQ(at % 64, 0u);
    EXPECT_EQ(text.size(), size == 0 ? (at + 3 + 63) / 64 * 64 : (at + 3 + 63) / 64 * 64 + static_cast<size_t>(size));
  }
}

TEST(PythonMessageTest, ResultsAreReadAsTheyWereWritten) {
  const auto read = Read(Message("{\"done\":12,\"bytes\":[3,0]}", "abc"));
  ASSERT_FALSE(read.ok()) << "the second part begins beyond the end";
  const auto whole = Read(Message("{\"done\":12,\"bytes\":[3]}", "abc"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->kind, PythonMessage::Kind::kDone);
  EXPECT_EQ(whole->number, 12u);
  ASSERT_EQ(whole->parts.size(), 1u);
  EXPECT_EQ(whole->parts[0].view(), "abc");
}

TEST(PythonMessageTest, ALeasedFileIsLockedWhileItsResultsLive) {
  const std::string message = Message("{\"done\":12,\"bytes\":[3]}", "abc");
  const net::Fd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 100'000), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  ASSERT_EQ(::pwrite(file.get(), message.data(), message.size(), 0), static_cast<ssize_t>(message.size()));
  const auto is_free = [&] { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::flock(file.get(), LOCK_UN) == 0; };
  auto read = ReadPacket(absl::StrCat("L", message.size()), net::Fd(::dup(file.get())));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->parts[0].view(), "abc");
  EXPECT_FALSE(is_free());
  read->parts.clear();
  EXPECT_TRUE(is_free());
}

TEST(PythonMessageTest, FailuresHaveACodeAndAText) {
  const auto read = Read(Message("{\"loaded\":3,\"code\":9,\"message\":\"no module\",\"bytes\":[]}"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, PythonMessage::Kind::kLoaded);
  EXPECT_EQ(read->status, absl::FailedPreconditionError("no module"));
  EXPECT_FALSE(Read(Message("{\"loaded\":3,\"code\":0,\"message\":\"\"}")).ok());
  EXPECT_FALSE(Read(Message("{\"loaded\":3,\"code\":99,\"message\":\"\"}")).ok());
  EXPECT_FALSE(Read(Message("{\"loaded\":3,\"code\":9}")).ok());
}

TEST(PythonMessageTest, ALoadedFunctionMayHaveALimitOfTime) {
  EXPECT_EQ(Read(Message("{\"loaded\":3,\"bytes\":[]}"))->seconds, 0);
  EXPECT_EQ(Read(Message("{\"loaded\":3,\"seconds\":2.5,\"bytes\":[]}"))->seconds, 2.5);
  for (const char* wrong : {"0", "-1", "1e10", "\"5\""})
    EXPECT_FALSE(Read(Message(absl::StrCat("{\"loaded\":3,\"seconds\":", wrong, ",\"bytes\":[]}"))).ok()) << wrong;
}

TEST(PythonMessageTest, WhatIsNoMessageIsRefused) {
  for (const std::string& packet :
       {std::string(), std::string("M"), std::string("Mabc"), std::string("F100"), std::string("X"), "M" + Message("[]"),
        "M" + Message("{}"), "M" + Message("{\"done\":-1,\"bytes\":[]}"), "M" + Message("{\"done\":1.5,\"bytes\":[]}"),
        "M" + Message("{\"done\":\"1\",\"bytes\":[]}"), "M" + Message("{\"done\":1}"),
        "M" + Message("{\"done\":1,\"bytes\":[-1]}"), "M" + Message("{\"done\":1,\"bytes\":[9000000000000000000]}"),
        "M" + Message("{\"done\":1}").substr(0, 6)})
    EXPECT_FALSE(ReadPacket(packet, net::Fd()).ok()) << packet;
}

}  // namespace
}  // namespace pw::worker
