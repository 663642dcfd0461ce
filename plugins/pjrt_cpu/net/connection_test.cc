// Tests encrypted connections between two ends in this process.
#include "plugins/pjrt_cpu/net/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::pjrt_cpu {
namespace {

using ::testing::HasSubstr;
constexpr std::chrono::milliseconds kPatience{60000};

std::pair<Socket, Socket> ConnectedSockets() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

// Receives until there are `size` bytes, or the connection has ended.
std::string Receive(Connection& from, size_t size) {
  std::string received;
  char bytes[100000];
  while (received.size() < size) {
    const ssize_t n = from.Receive(bytes, std::min(sizeof(bytes), size - received.size()));
    if (n == 0) break;
    if (n > 0) {
      received.append(bytes, n);
      continue;
    }
    EXPECT_EQ(errno, EAGAIN);
    pollfd readable{from.fd(), POLLIN, 0};
    poll(&readable, 1, -1);
  }
  return received;
}

// Reads one of TLS's records. Empty: the connection has ended.
std::string ReadRecord(const Socket& from) {
  std::string record(5, '\0');
  if (recv(from.fd(), record.data(), 5, MSG_WAITALL) != 5) return "";
  const size_t size = static_cast<uint8_t>(record[3]) << 8 | static_cast<uint8_t>(record[4]);
  record.resize(5 + size);
  if (recv(from.fd(), record.data() + 5, size, MSG_WAITALL) != static_cast<ssize_t>(size)) return "";
  return record;
}

std::string Noise(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 7;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

TEST(Key, SurvivesTextAndNothingElseIsAKey) {
  const Key key = *RandomKey();
  EXPECT_TRUE(SameKey(*ParseKey(KeyText(key)), key));
  EXPECT_FALSE(SameKey(*RandomKey(), key));
  const std::string text = KeyText(key);
  for (const std::string& wrong : {std::string(), text + "0", text.substr(1), "g" + text.substr(1), "-" + text.substr(1)}) EXPECT_FALSE(ParseKey(wrong).ok()) << wrong;
}

TEST(Connection, CarriesBytesWithChangesOfTheKey) {
  auto [here, there] = ConnectedSockets();
  const Key key = *RandomKey();
  SetNonBlocking(there.fd());
  Connection accepted = *Connection::Accept(std::move(there), key);
  const std::string large = Noise(3 << 20), small = "small";
  auto sent = std::async(std::launch::async, [&] {
    absl::StatusOr<Connection> to = Connection::Encrypt(std::move(here), key, kPatience, 100000);
    if (!to.ok()) return to.status();
    for (const auto& parts : std::vector<std::vector<absl::string_view>>{{small}, {small, large, small}, {large, "", large}, {""}, {small}})
      if (absl::Status status = to->Send(parts); !status.ok()) return status;
    return absl::OkStatus();
  });
  EXPECT_EQ(Receive(accepted, small.size()), small);
  accepted.Greeted();
  const std::string rest = small + large + small + large + large + small;
  EXPECT_TRUE(Receive(accepted, rest.size() + 1) == rest) << "and then it ends";
  EXPECT_EQ(sent.get(), absl::OkStatus());
}

TEST(Connection, NothingOnTheWayCanBeReadOrChanged) {
  const Key key = *RandomKey();
  const std::string text = "readable-text-of-32-bytes-length";
  for (const bool change : {false, true}) {
    auto [here, on_the_way] = ConnectedSockets();
    auto [forwarding, there] = ConnectedSockets();
    SetNonBlocking(there.fd());
    Connection accepted = *Connection::Accept(std::move(there), key);
    auto received = std::async(std::launch::async, [&accepted] { return Receive(accepted, 1000); });
    auto answers = std::async(std::launch::async, [&on_the_way = on_the_way, &forwarding = forwarding] {
      char bytes[4096];
      for (ssize_t n; (n = read(forwarding.fd(), bytes, sizeof(bytes))) > 0;) WriteAll(on_the_way.fd(), {{bytes, static_cast<size_t>(n)}}).IgnoreError();
    });
    auto sent = std::async(std::launch::async, [&here = here, &key, &text] {
      absl::StatusOr<Connection> to = Connection::Encrypt(std::move(here), key, kPatience);
      return to.ok() ? to->Send({text}) : to.status();
    });
    std::string seen;
    for (std::string record; !(record = ReadRecord(on_the_way)).empty();) {
      seen += record;
      const bool is_text = record.size() == 5 + text.size() + 1 + 16;  // of a header, the contents, their type and a checksum
      if (change && is_text) record[5] ^= 1;
      if (!WriteAll(forwarding.fd(), {record}).ok()) break;
    }
    shutdown(forwarding.fd(), SHUT_WR);
    EXPECT_EQ(sent.get(), absl::OkStatus());
    EXPECT_EQ(received.get(), change ? "" : text);
    accepted.Shutdown();
    answers.get();
    EXPECT_GT(seen.size(), text.size());
    EXPECT_EQ(seen.find(text), std::string::npos);
    EXPECT_EQ(seen.find(std::string(reinterpret_cast<const char*>(key.data()), 8)), std::string::npos);
  }
}

TEST(Connection, WithoutTheKeyThereIsNone) {
  auto [here, there] = ConnectedSockets();
  const Key key = *RandomKey(), other = *RandomKey();
  SetNonBlocking(there.fd());
  Connection accepted = *Connection::Accept(std::move(there), key);
  auto connected = std::async(std::launch::async, [&here = here, &other] { return Connection::Encrypt(std::move(here), other, kPatience).status(); });
  EXPECT_EQ(Receive(accepted, 1), "");
  accepted.Shutdown();
  const absl::Status status = connected.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no encrypted connection"));
}

TEST(Connection, AHandshakeThatIsNotAnsweredEnds) {
  auto [here, there] = ConnectedSockets();
  const absl::Status status = Connection::Encrypt(std::move(here), *RandomKey(), std::chrono::milliseconds(1)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("within 1 ms"));
}

TEST(Connection, SendingToAnEndThatIsGoneIsAnErrorAndNoSignal) {
  auto [here, there] = ConnectedSockets();
  const Key key = *RandomKey();
  SetNonBlocking(there.fd());
  auto connected = std::async(std::launch::async, [&here = here, &key] { return Connection::Encrypt(std::move(here), key, kPatience); });
  {
    Connection accepted = *Connection::Accept(std::move(there), key);
    pollfd readable{accepted.fd(), POLLIN, 0};
    char byte;
    while (connected.wait_for(std::chrono::seconds(0)) != std::future_status::ready && poll(&readable, 1, 1) >= 0) accepted.Receive(&byte, 1);
  }
  absl::StatusOr<Connection> connection = connected.get();
  ASSERT_TRUE(connection.ok()) << connection.status().message();
  EXPECT_EQ(connection->Send({Noise(1 << 20)}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace pw::pjrt_cpu
