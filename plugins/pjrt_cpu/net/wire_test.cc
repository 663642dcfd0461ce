// Tests the wire between processes simulated in this one.
#include "plugins/pjrt_cpu/net/wire.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/pjrt_cpu/net/sockets.h"

namespace pw::pjrt_cpu {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Wire> OpenWire(const std::string& reachable = "", const std::string& island = "") {
  absl::StatusOr<std::shared_ptr<Wire>> wire = Wire::Open(reachable, island);
  EXPECT_TRUE(wire.ok()) << wire.status().message();
  return *wire;
}

std::string Text(const absl::StatusOr<Message>& message) {
  if (!message.ok()) return std::string(message.status().message());
  return std::string(message->bytes.get(), message->size);
}

TEST(Address, SurvivesText) {
  ProcessAddress address{1, {2, 3, ~uint64_t{0}}, "name", "host", 33, "island0"};
  const absl::StatusOr<ProcessAddress> read = ProcessAddress::Parse(address.ToString());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->ToString(), address.ToString());
  EXPECT_EQ(ProcessAddress::Parse(ProcessAddress{5, {6}, "n", "", 0, ""}.ToString())->host, "");
  EXPECT_FALSE(ProcessAddress::Parse("somewhere").ok());
  EXPECT_FALSE(ProcessAddress::Parse("").ok());
  EXPECT_FALSE(ProcessAddress::Parse("1 2 name host 33 island0").ok()) << "the key is too short";
}

TEST(Wire, CarriesMessagesInOrderAlsoBeforeTheyAreAskedFor) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(a->Connect(b->self()).ok());
  const MessageTag tag{1, 2, 3, 4}, other{1, 2, 3, 5};
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(a->Send(b->self().uid, tag, {"one", "", "!"}).ok());
  ASSERT_TRUE(a->Send(b->self().uid, other, {large}).ok());
  ASSERT_TRUE(a->Send(b->self().uid, tag, {"two"}).ok());
  EXPECT_EQ(Text(b->Receive(a->self().uid, other)), large);
  EXPECT_EQ(Text(b->Receive(a->self().uid, tag)), "one!");
  EXPECT_EQ(Text(b->Receive(a->self().uid, tag)), "two");
  EXPECT_EQ(a->traffic().messages, 3);
  EXPECT_EQ(a->traffic().bytes, 4 + 3 + (3 << 20));
}

TEST(Wire, GoesOverTcpWhereTheMachineIsAnother) {
  auto a = OpenWire(), b = OpenWire("127.0.0.1");
  ProcessAddress far = b->self();
  far.unix_name = "not-there";
  ASSERT_TRUE(a->Connect(far).ok());
  ASSERT_TRUE(a->Send(far.uid, {}, {"over there"}).ok());
  EXPECT_EQ(Text(b->Receive(a->self().uid, {})), "over there");
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(a->Send(far.uid, {}, {"1", large, "2"}).ok());
  EXPECT_EQ(Text(b->Receive(a->self().uid, {})), "1" + large + "2");
}

TEST(Wire, OverTcpStrangersAreSentAwayAndAWrongSecretIsAnErrorAtOnce) {
  auto a = OpenWire(), b = OpenWire("127.0.0.1");
  for (const std::string& words : {std::string(200, 'x'), std::string("\x16\x03\x01\x40\x00", 5) + std::string(10000, '\1')}) {
    absl::StatusOr<Socket> stranger = ConnectTcp("127.0.0.1", b->self().port);
    ASSERT_TRUE(stranger.ok());
    WriteAll(stranger->fd(), {words}).IgnoreError();
    shutdown(stranger->fd(), SHUT_WR);
    char answer[4096];
    ssize_t n;
    while ((n = read(stranger->fd(), answer, sizeof(answer))) > 0) continue;  // an alert
    EXPECT_LE(n, 0);
  }
  ProcessAddress wrong = b->self();
  wrong.unix_name = "not-there";
  wrong.secret[0] ^= 1;
  EXPECT_THAT(std::string(a->Connect(wrong).message()), HasSubstr("no encrypted connection"));
  auto c = OpenWire();
  ProcessAddress right = b->self();
  right.unix_name = "not-there";
  ASSERT_TRUE(c->Connect(right).ok());
  ASSERT_TRUE(c->Send(right.uid, {}, {"let in"}).ok());
  EXPECT_EQ(Text(b->Receive(c->self().uid, {})), "let in");
}

TEST(Wire, CountsWhatLeavesTheIslandApart) {
  auto a = OpenWire("", "i0"), b = OpenWire("", "i1");
  ASSERT_TRUE(a->Connect(b->self()).ok());
  ASSERT_TRUE(a->Send(b->self().uid, {}, {"12345"}).ok());
  EXPECT_EQ(a->traffic().messages, 0);
  EXPECT_EQ(a->traffic().messages_between_islands, 1);
  EXPECT_EQ(a->traffic().bytes_between_islands, 5);
}

TEST(Wire, WhoWaitsForAProcessThatEndsIsTold) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(a->Connect(b->self()).ok());
  const uint64_t gone = b->self().uid;
  auto waiting = std::async(std::launch::async, [&] { return a->Receive(gone, {}).status(); });
  b = nullptr;
  EXPECT_EQ(waiting.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a->Receive(gone, {}).status().code(), absl::StatusCode::kUnavailable) << "and later too";
  EXPECT_FALSE(a->Send(gone, {}, {"hello"}).ok());
}

TEST(Wire, NobodyWaitsForWhatTheHostKnowsToBeGone) {
  auto a = OpenWire(), b = OpenWire();
  auto waiting = std::async(std::launch::async, [&] { return a->Receive(b->self().uid, {}).status(); });
  a->Lose(b->self().uid, "it was switched off");
  EXPECT_THAT(std::string(waiting.get().message()), HasSubstr("switched off"));
}

TEST(Wire, ErrorsCallAProcessByItsName) {
  auto a = OpenWire(), b = OpenWire(), c = OpenWire();
  a->Name(b->self().uid, "2");
  a->Lose(b->self().uid, "it was switched off");
  a->Lose(c->self().uid, "it was switched off");
  EXPECT_EQ(a->Lost(b->self().uid).message(), "process 2 of the computation is gone: it was switched off");
  EXPECT_EQ(a->Lost(c->self().uid).message(),
            "process " + std::to_string(c->self().uid) + " of the computation is gone: it was switched off");
}

TEST(Wire, AnAbortReachesEverybodyOnceAndForAll) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(a->Connect(b->self()).ok());
  auto waiting = std::async(std::launch::async, [&] { return b->Receive(a->self().uid, {7, 0, 0, 0}).status(); });
  auto unconcerned = std::async(std::launch::async, [&] { return Text(b->Receive(a->self().uid, {8, 0, 0, 0})); });
  a->Abort(7, absl::InternalError("it broke"));
  EXPECT_EQ(waiting.get(), absl::InternalError("it broke"));
  EXPECT_EQ(b->Receive(a->self().uid, {7, 1, 2, 3}).status(), absl::InternalError("it broke"));
  EXPECT_EQ(a->Aborted(7), absl::InternalError("it broke"));
  ASSERT_TRUE(a->Send(b->self().uid, {8, 0, 0, 0}, {"fine"}).ok());
  EXPECT_EQ(unconcerned.get(), "fine");
}

TEST(Wire, StrangersAreSentAway) {
  auto a = OpenWire();
  for (const std::string& words : {std::string(200, 'x'), std::string(64, '\0')}) {
    absl::StatusOr<Socket> stranger = ConnectUnix(a->self().unix_name);
    ASSERT_TRUE(stranger.ok());
    WriteAll(stranger->fd(), {words}).IgnoreError();
    char byte;
    EXPECT_LE(read(stranger->fd(), &byte, 1), 0) << "the connection is closed";
  }
  ProcessAddress wrong = a->self();
  wrong.secret[2] ^= 1;
  auto b = OpenWire();
  ASSERT_TRUE(b->Connect(wrong).ok());
  EXPECT_EQ(b->Receive(a->self().uid, {}).status().code(), absl::StatusCode::kUnavailable);
}

// Returns whether the other end closes the connection. Waits for that.
bool Ends(const Socket& socket) {
  char byte;
  return read(socket.fd(), &byte, 1) <= 0;
}

TEST(Wire, ACrowdOfStrangersIsSmallAndKeepsNobodyOut) {
  absl::StatusOr<std::shared_ptr<Wire>> patient = Wire::Open("", "", std::chrono::hours(1));
  ASSERT_TRUE(patient.ok());
  auto a = *patient, b = OpenWire();
  std::vector<Socket> crowd;
  for (size_t i = 0; i <= kMostStrangers; ++i) {
    absl::StatusOr<Socket> stranger = ConnectUnix(a->self().unix_name);
    ASSERT_TRUE(stranger.ok()) << stranger.status().message();
    crowd.push_back(*std::move(stranger));
  }
  EXPECT_TRUE(Ends(crowd.front())) << "the oldest one makes room";
  ASSERT_TRUE(b->Connect(a->self()).ok());
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"let in"}).ok());
  EXPECT_EQ(Text(a->Receive(b->self().uid, {})), "let in");
}

TEST(Wire, AStrangerThatSaysNothingOrTooLittleIsSentAway) {
  absl::StatusOr<std::shared_ptr<Wire>> a = Wire::Open("", "", std::chrono::milliseconds(10));
  ASSERT_TRUE(a.ok());
  for (int round = 0; round < 2; ++round) {  // the timer runs again for later ones
    const absl::StatusOr<Socket> silent = ConnectUnix((*a)->self().unix_name), slow = ConnectUnix((*a)->self().unix_name);
    ASSERT_TRUE(silent.ok() && slow.ok());
    WriteAll(slow->fd(), {"1cwp"}).IgnoreError();  // the beginning of a hello
    EXPECT_TRUE(Ends(*silent));
    EXPECT_TRUE(Ends(*slow));
  }
}

TEST(Wire, ListensOnItsOwnAddressAlone) {
  auto a = OpenWire("127.0.0.1");
  EXPECT_TRUE(ConnectTcp("127.0.0.1", a->self().port).ok());
  EXPECT_FALSE(ConnectTcp("127.0.0.2", a->self().port).ok());
  auto anywhere = OpenWire("192.0.2.1");  // an address of documentation, as behind a translation of addresses
  EXPECT_TRUE(ConnectTcp("127.0.0.2", anywhere->self().port).ok());
}

// Liar: a process that has the secret of `of` and sends arbitrary frames.
class Liar {
 public:
  static constexpr uint64_t kUid = 77;
  explicit Liar(const Wire& of, uint64_t uid = kUid) : socket_(*ConnectUnix(of.self().unix_name)) {
    const Key& secret = of.self().secret;
    Say(1, {static_cast<int64_t>(uid), secret[0], static_cast<int64_t>(secret[1]), static_cast<int64_t>(secret[2])}, 0);
  }
  // Sends a frame header that announces `size` bytes, laid out as in wire.cc.
  void Say(uint32_t kind, const MessageTag& tag, uint64_t size) {
    constexpr uint32_t kMagic = 0x70776331;
    std::string frame;
    for (auto field : {std::string_view(reinterpret_cast<const char*>(&kMagic), 4),
                       {reinterpret_cast<const char*>(&kind), 4},
                       {reinterpret_cast<const char*>(&tag), sizeof(tag)},
                       {reinterpret_cast<const char*>(&size), 8}})
      frame += field;
    ASSERT_EQ(frame.size(), kHeaderBytes);
    ASSERT_TRUE(WriteAll(socket_.fd(), {frame}).ok());
  }
  bool ends() const { return Ends(socket_); }
  // Sends bytes as they are, as far as the other end reads them.
  void SayBytes(const std::string& bytes) { WriteAll(socket_.fd(), {bytes}).IgnoreError(); }

 private:
  Socket socket_;
};

TEST(Wire, WhoAnnouncesMoreThanThereIsMemoryIsLostAlone) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(b->Connect(a->self()).ok());
  std::make_unique<Liar>(*a)->Say(2, {}, uint64_t{1} << 40);
  EXPECT_EQ(a->Receive(Liar::kUid, {}).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"still here"}).ok());
  EXPECT_EQ(Text(a->Receive(b->self().uid, {})), "still here");
}

// While it exists, the process can open only `more` files.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);
    close(next);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next + more);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

// ListenerWatch: tells whether a wire watches for new connections, by the kernel's information about its epoll. Opens that file
// in its constructor.
class ListenerWatch {
 public:
  explicit ListenerWatch(const Wire& wire) {
    std::vector<std::string> descriptors;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) descriptors.push_back(entry.path().filename());
    for (const std::string& name : descriptors)
      if (IsListener(std::stoi(name), wire.self().unix_name)) listener_ = std::stoi(name);
    for (const std::string& name : descriptors) {
      info_ = Socket(open(("/proc/self/fdinfo/" + name).c_str(), O_RDONLY | O_CLOEXEC));
      if (Events().has_value()) return;
    }
    ADD_FAILURE() << "nothing watches the listener";
  }

  bool on() const { return (Events().value_or(0) & EPOLLIN) != 0; }

 private:
  static bool IsListener(int fd, const std::string& unix_name) {
    sockaddr_un name{};
    socklen_t size = sizeof(name), flag_size = sizeof(int);
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) != 0 || listens == 0) return false;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 || name.sun_family != AF_UNIX) return false;
    return std::string_view(name.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1) == unix_name;
  }

  // Returns the events for which the epoll behind `info_` watches the listener; nullopt if it does not watch it.
  std::optional<uint32_t> Events() const {
    char text[16384];
    const ssize_t size = pread(info_.fd(), text, sizeof(text), 0);
    std::istringstream lines(std::string(text, size < 0 ? 0 : size));
    for (std::string line; std::getline(lines, line);) {
      int fd;
      uint32_t events;
      if (std::sscanf(line.c_str(), "tfd: %d events: %x", &fd, &events) == 2 && fd == listener_) return events;
    }
    return std::nullopt;
  }

  int listener_ = -1;
  Socket info_;
};

TEST(Wire, WithoutDescriptorsAConnectionWaitsAndCostsNothing) {
  auto a = OpenWire(), b = OpenWire(), c = OpenWire();
  ASSERT_TRUE(c->Connect(a->self()).ok());
  ASSERT_TRUE(c->Send(a->self().uid, {}, {"early"}).ok());
  ASSERT_EQ(Text(a->Receive(c->self().uid, {})), "early");
  const ListenerWatch watch(*a);
  ASSERT_TRUE(watch.on());
  auto few = std::make_unique<FewFiles>(1);
  ASSERT_TRUE(b->Connect(a->self()).ok()) << "that is the last one";
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"late"}).ok());
  auto late = std::async(std::launch::async, [&] { return Text(a->Receive(b->self().uid, {})); });
  // The reader gets the event of the waiting connection before this message. After each look at that connection it stops watching for a
  // while.
  int rounds = 0;
  do {
    ASSERT_TRUE(c->Send(a->self().uid, {}, {"again"}).ok());
    ASSERT_EQ(Text(a->Receive(c->self().uid, {})), "again");
  } while (watch.on() && ++rounds < 100);
  EXPECT_LT(rounds, 100) << "the reader asks again and again";
  EXPECT_EQ(late.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  few = nullptr;
  EXPECT_EQ(late.get(), "late");
}

TEST(Wire, WithoutDescriptorsThereIsNoWire) {
  FewFiles none(0);
  EXPECT_EQ(Wire::Open("", "").status().code(), absl::StatusCode::kUnavailable);
}

TEST(Wire, NonsenseEndsItsConnectionAtMost) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(b->Connect(a->self()).ok());
  std::mt19937_64 random(5);
  constexpr uint64_t kSizes[] = {0, 1, 100, 70000, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}};
  for (uint64_t round = 0; round < 300; ++round) {
    Liar liar(*a, 1000 + round);
    for (int i = 0; i < 5; ++i) {
      uint64_t fields[6];
      for (uint64_t& each : fields) each = random();
      const uint64_t kind = random() % 5;
      fields[0] = 0x70776331 | kind << 32;
      fields[5] = kSizes[random() % 7];
      std::string bytes(reinterpret_cast<const char*>(fields), sizeof(fields));
      bytes.resize(bytes.size() + random() % 200, 'x');
      if (random() % 8 == 0) bytes[random() % 48] ^= 1;
      liar.SayBytes(bytes);
    }
  }
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"still here"}).ok());
  EXPECT_EQ(Text(a->Receive(b->self().uid, {})), "still here");
}

TEST(Wire, NobodyPassesForAProcessThatIsConnected) {
  auto a = OpenWire(), b = OpenWire();
  ASSERT_TRUE(b->Connect(a->self()).ok());
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"mine"}).ok());
  EXPECT_EQ(Text(a->Receive(b->self().uid, {})), "mine");
  for (uint64_t uid : {b->self().uid, a->self().uid, uint64_t{0}, ~uint64_t{0}}) EXPECT_TRUE(Liar(*a, uid).ends()) << uid;
  EXPECT_TRUE(a->Lost(b->self().uid).ok()) << a->Lost(b->self().uid).message();
  ASSERT_TRUE(b->Send(a->self().uid, {}, {"still mine"}).ok());
  EXPECT_EQ(Text(a->Receive(b->self().uid, {})), "still mine");
}

TEST(Wire, AnAbortIsAnErrorWhateverCodeItHas) {
  auto a = OpenWire();
  Liar liar(*a);
  int64_t run = 1;
  for (int64_t code : {int64_t{0}, int64_t{-1}, int64_t{17}, int64_t{1} << 40}) {
    liar.Say(3, {run, 0, 0, code}, 0);
    EXPECT_EQ(a->Receive(Liar::kUid, {run++, 0, 0, 0}).status().code(), absl::StatusCode::kUnknown) << code;
  }
}

}  // namespace
}  // namespace pw::pjrt_cpu
