#include "plugins/pjrt_cpu/net/wire.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "plugins/pjrt_cpu/net/connection.h"
#include "plugins/pjrt_cpu/net/sockets.h"

namespace pw::pjrt_cpu {
namespace {

constexpr uint32_t kMagic = 0x70776331;
constexpr size_t kStagingBytes = 64 << 10;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr size_t kRememberedAborts = 4096;
constexpr std::chrono::milliseconds kRestTime{100};
constexpr std::chrono::milliseconds kHandshakeTime{30000};  // of each step of a handshake

enum class FrameKind : uint32_t { kHello = 1, kData = 2, kAbort = 3 };

struct FrameHeader {
  uint32_t magic = kMagic;
  FrameKind kind = FrameKind::kData;
  MessageTag tag;  // hello: run is the sender's uid, the others are the receiver's secret; abort: step is the status code
  uint64_t size = 0;
};
static_assert(sizeof(FrameHeader) == kHeaderBytes);

absl::string_view AsBytes(const FrameHeader& header) {
  return absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header));
}

MessageTag HelloTag(uint64_t uid, const Key& secret) {
  return {static_cast<int64_t>(uid), secret[0], static_cast<int64_t>(secret[1]), static_cast<int64_t>(secret[2])};
}

Key KeyIn(const MessageTag& hello) { return {hello.group, static_cast<uint64_t>(hello.op), static_cast<uint64_t>(hello.step)}; }

// Returns another process's reason for an abort. Never returns OK, which would leave receivers waiting.
absl::Status ReasonOf(const FrameHeader& abort, absl::string_view text) {
  const bool known = abort.tag.step > 0 && abort.tag.step <= static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(abort.tag.step) : absl::StatusCode::kUnknown, text);
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }
std::string FromDash(absl::string_view text) { return text == "-" ? std::string() : std::string(text); }

uint64_t RandomNumber() {
  std::random_device device;
  const uint64_t high = device();
  return ((high << 32) | device()) & 0x7fffffffffffffff;
}

// Connects within this machine if the process is on it.
absl::StatusOr<Connection> ConnectTo(const ProcessAddress& to) {
  absl::StatusOr<Socket> near = ConnectUnix(to.unix_name);
  if (near.ok()) return Connection(*std::move(near));
  if (to.host.empty()) return near.status();
  absl::StatusOr<Socket> far = ConnectTcp(to.host, to.port);
  if (!far.ok()) return far.status();
  return Connection::Encrypt(*std::move(far), to.secret, kHandshakeTime);
}

}  // namespace

std::string ProcessAddress::ToString() const {
  return absl::StrCat(uid, " ", KeyText(secret), " ", OrDash(unix_name), " ", OrDash(host), " ", port, " ", OrDash(island));
}

absl::StatusOr<ProcessAddress> ProcessAddress::Parse(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  ProcessAddress address;
  const absl::StatusOr<Key> secret = ParseKey(parts.size() == 6 ? parts[1] : "");
  if (!secret.ok() || !absl::SimpleAtoi(parts[0], &address.uid) || !absl::SimpleAtoi(parts[4], &address.port))
    return absl::InvalidArgumentError("a text is not the address of a process of this plugin");
  address.secret = *secret;
  address.unix_name = FromDash(parts[2]);
  address.host = FromDash(parts[3]);
  address.island = FromDash(parts[5]);
  return address;
}

struct Wire::State {
  // A connection to one process. The last user closes its descriptor.
  struct Outgoing {
    uint64_t uid = 0;
    bool same_island = true;
    Connection connection;
    absl::Mutex write_mu;  // held for whole messages
  };
  // A connection from one process; used by the reader only.
  struct Incoming {
    uint64_t name = 0;
    Connection connection;
    uint64_t uid = 0;  // 0: no hello yet
    size_t staging_bytes = kHeaderBytes;
    std::unique_ptr<char[]> staging = std::make_unique<char[]>(kHeaderBytes);
    size_t begin = 0, end = 0;  // the staged range
    bool in_payload = false;
    FrameHeader header;
    Message payload;
    size_t filled = 0;
  };
  struct Box {
    std::deque<Message> messages;
    int waiting = 0;
    absl::CondVar arrived;
  };
  using BoxKey = std::pair<uint64_t, MessageTag>;

  ~State() {
    stopping.store(true);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake.fd(), &one, sizeof(one));
    if (reader.joinable()) reader.join();
  }

  absl::Status Start(const std::string& reachable_as, const std::string& island, std::chrono::milliseconds greeting);
  void Watch(int fd, uint64_t name, int operation = EPOLL_CTL_ADD, uint32_t events = EPOLLIN);
  void WatchListeners(int operation, uint32_t events = EPOLLIN);
  void TakeConnection(const Socket& listener);
  void Rest(int error);             // WI-4
  void AddStranger(uint64_t name);  // this and the next four: WI-5, WI-6
  void DropSlowStrangers();
  void ForgetStranger(uint64_t name);
  void Drop(uint64_t name);
  bool Greet(Incoming& from, const Key& secret, uint64_t uid);  // false: it is sent away
  void ReadAll();
  void OnEvent(uint64_t name);
  bool Read(Incoming& from);     // false: the connection has ended
  bool Consume(Incoming& from);  // false: malformed
  bool OnFrame(Incoming& from);
  absl::Status Failure(uint64_t from, int64_t run) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void MarkLost(uint64_t uid, const std::string& why);
  bool MarkAborted(int64_t run, const absl::Status& why);  // false: already aborted
  absl::StatusOr<std::shared_ptr<Outgoing>> FindWay(uint64_t to);

  ProcessAddress self;
  Socket epoll, wake, rest, patience, unix_listener, tcp_listener;
  std::chrono::milliseconds greeting_time{};
  std::thread reader;
  std::atomic<bool> stopping{false};
  absl::flat_hash_map<uint64_t, std::unique_ptr<Incoming>> incoming;  // reader only
  uint64_t next_name = 16;                                            // reader only
  absl::flat_hash_set<uint64_t> connected;                            // reader only: uids
  std::deque<uint64_t> strangers;                                     // reader only: of `incoming`, the oldest first
  size_t slow_strangers = 0;          // reader only: the first ones, which were there at the last look
  bool short_of_descriptors = false;  // reader only

  mutable absl::Mutex mu;
  absl::Mutex connect_mu;                                                                 // one connection is made at a time
  absl::flat_hash_map<uint64_t, std::shared_ptr<Outgoing>> outgoing ABSL_GUARDED_BY(mu);  // by uid
  absl::flat_hash_map<BoxKey, std::unique_ptr<Box>> boxes ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<int64_t, absl::Status> aborted ABSL_GUARDED_BY(mu);
  std::deque<int64_t> aborted_order ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<uint64_t, absl::Status> lost ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<uint64_t, std::string> names ABSL_GUARDED_BY(mu);
  std::function<void(int64_t, const absl::Status&)> on_abort ABSL_GUARDED_BY(mu);
  Traffic traffic ABSL_GUARDED_BY(mu);
};

namespace {
// Keys in epoll. Outgoing connections use the uid with the top bit set.
constexpr uint64_t kWake = 1, kUnix = 2, kTcp = 3, kRest = 4, kPatience = 5;
constexpr uint64_t kOutgoing = uint64_t{1} << 63;
}  // namespace

absl::Status Wire::State::Start(const std::string& reachable_as, const std::string& island, std::chrono::milliseconds greeting) {
  greeting_time = greeting;
  self.uid = RandomNumber();
  const absl::StatusOr<Key> secret = RandomKey();
  if (!secret.ok()) return secret.status();
  self.secret = *secret;
  self.island = island;
  self.unix_name = absl::StrCat("pathways-collectives-", self.uid);
  epoll = Socket(epoll_create1(EPOLL_CLOEXEC));
  wake = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  rest = Socket(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  patience = Socket(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid() || !rest.valid() || !patience.valid())
    return absl::UnavailableError(absl::StrCat("cannot wait for other processes: ", std::strerror(errno)));
  absl::StatusOr<Socket> local = ListenUnix(self.unix_name);
  if (!local.ok()) return local.status();
  unix_listener = *std::move(local);
  if (!reachable_as.empty()) {
    absl::StatusOr<Socket> network = ListenTcp(reachable_as, &self.port);
    if (!network.ok()) return network.status();
    tcp_listener = *std::move(network);
    self.host = reachable_as;
  }
  Watch(wake.fd(), kWake);
  Watch(rest.fd(), kRest);
  Watch(patience.fd(), kPatience);
  WatchListeners(EPOLL_CTL_ADD);
  reader = std::thread([this] { ReadAll(); });
  return absl::OkStatus();
}

void Wire::State::Watch(int fd, uint64_t name, int operation, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll.fd(), operation, fd, &event);
}

void Wire::State::WatchListeners(int operation, uint32_t events) {
  Watch(unix_listener.fd(), kUnix, operation, events);
  if (tcp_listener.valid()) Watch(tcp_listener.fd(), kTcp, operation, events);
}

void Wire::State::ReadAll() {
  epoll_event events[64];
  while (!stopping.load()) {
    const int n = epoll_wait(epoll.fd(), events, 64, -1);
    for (int i = 0; i < n && !stopping.load(); ++i) OnEvent(events[i].data.u64);
  }
}

namespace {

// Has the timer's event come once, after this time.
void SetTimer(const Socket& timer, std::chrono::milliseconds after) {
  itimerspec until{};
  until.it_value.tv_sec = static_cast<time_t>(after.count() / 1000);
  until.it_value.tv_nsec = static_cast<long>(after.count() % 1000) * 1'000'000;
  timerfd_settime(timer.fd(), 0, &until, nullptr);
}

void TakeTimerEvent(const Socket& timer) {
  uint64_t times;
  [[maybe_unused]] const ssize_t n = read(timer.fd(), &times, sizeof(times));
}

}  // namespace

void Wire::State::OnEvent(uint64_t name) {
  if (name == kWake) return;
  if (name == kUnix || name == kTcp) return TakeConnection(name == kUnix ? unix_listener : tcp_listener);
  if (name == kRest) {
    TakeTimerEvent(rest);
    return WatchListeners(EPOLL_CTL_MOD);
  }
  if (name == kPatience) {
    TakeTimerEvent(patience);
    return DropSlowStrangers();
  }
  if ((name & kOutgoing) != 0) return MarkLost(name & ~kOutgoing, "its connection has ended");  // peers send nothing on it
  auto it = incoming.find(name);
  if (it == incoming.end() || Read(*it->second)) return;
  const uint64_t uid = it->second->uid;
  Drop(name);
  if (uid != 0) MarkLost(uid, "its connection has ended");
}

void Wire::State::AddStranger(uint64_t name) {
  if (strangers.empty()) SetTimer(patience, greeting_time);
  strangers.push_back(name);
  if (strangers.size() > kMostStrangers) Drop(strangers.front());
}

// Drops those that were there when the timer was set. So a stranger has between one and two greeting times.
void Wire::State::DropSlowStrangers() {
  for (size_t slow = slow_strangers; slow > 0; --slow) Drop(strangers.front());
  slow_strangers = strangers.size();
  if (!strangers.empty()) SetTimer(patience, greeting_time);
}

void Wire::State::ForgetStranger(uint64_t name) {
  const auto at = std::find(strangers.begin(), strangers.end(), name);
  if (at == strangers.end()) return;
  if (static_cast<size_t>(at - strangers.begin()) < slow_strangers) --slow_strangers;
  strangers.erase(at);
}

// Closes an incoming connection.
void Wire::State::Drop(uint64_t name) {
  ForgetStranger(name);
  incoming.erase(name);
}

void Wire::State::TakeConnection(const Socket& listener) {
  int error = 0;
  Socket socket = Accept(listener, &error);
  if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) return Rest(error);
  if (!socket.valid()) return;
  short_of_descriptors = false;
  absl::StatusOr<Connection> connection = &listener == &tcp_listener ? Connection::Accept(std::move(socket), self.secret)
                                                                    : absl::StatusOr<Connection>(Connection(std::move(socket)));
  if (!connection.ok()) return;
  const uint64_t given = next_name++;
  Watch(connection->fd(), given);
  auto from = std::make_unique<Incoming>();
  from->name = given;
  from->connection = *std::move(connection);
  incoming[given] = std::move(from);
  AddStranger(given);
}

void Wire::State::Rest(int error) {
  if (!std::exchange(short_of_descriptors, true)) {
    std::fprintf(stderr, "pjrt_cpu: connections of other processes wait: %s; raise the limit of open files (ulimit -n)\n",
                 std::strerror(error));
  }
  WatchListeners(EPOLL_CTL_MOD, 0);
  SetTimer(rest, kRestTime);
}

bool Wire::State::Read(Incoming& from) {
  while (true) {
    const bool direct = from.in_payload && from.begin == from.end;
    if (!direct && from.begin == from.end) from.begin = from.end = 0;
    char* into = direct ? from.payload.bytes.get() + from.filled : from.staging.get() + from.end;
    const size_t room = direct ? from.payload.size - from.filled : from.staging_bytes - from.end;
    const ssize_t n = from.connection.Receive(into, room);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    if (direct) {
      from.filled += n;
      if (from.filled == from.payload.size && !OnFrame(from)) return false;
    } else {
      from.end += n;
      if (!Consume(from)) return false;
    }
    if (static_cast<size_t>(n) < room && !from.connection.encrypted()) return true;  // epoll reports when there is more
  }
}

bool Wire::State::Consume(Incoming& from) {
  while (true) {
    const size_t staged = from.end - from.begin;
    if (!from.in_payload) {
      if (staged < sizeof(FrameHeader)) break;
      std::memcpy(&from.header, from.staging.get() + from.begin, sizeof(FrameHeader));
      from.begin += sizeof(FrameHeader);
      if (from.header.magic != kMagic || from.header.size > kMostBytes) return false;
      if (from.uid == 0 && (from.header.kind != FrameKind::kHello || from.header.size != 0)) return false;
      from.payload.size = from.header.size;
      from.payload.bytes.reset(new (std::nothrow) char[from.header.size]);
      if (from.payload.bytes == nullptr) return false;  // drops the connection: the sender announced too much
      from.filled = 0;
      from.in_payload = true;
      continue;
    }
    const size_t n = std::min(staged, from.payload.size - from.filled);
    std::memcpy(from.payload.bytes.get() + from.filled, from.staging.get() + from.begin, n);
    from.begin += n;
    from.filled += n;
    if (from.filled < from.payload.size) break;
    if (!OnFrame(from)) return false;
  }
  if (from.begin > 0) {
    std::memmove(from.staging.get(), from.staging.get() + from.begin, from.end - from.begin);
    from.end -= from.begin;
    from.begin = 0;
  }
  return true;
}

bool Wire::State::OnFrame(Incoming& from) {
  from.in_payload = false;
  const FrameHeader& header = from.header;
  if (header.kind == FrameKind::kHello) return Greet(from, KeyIn(header.tag), static_cast<uint64_t>(header.tag.run));
  if (header.kind == FrameKind::kAbort) {
    MarkAborted(header.tag.run, ReasonOf(header, absl::string_view(from.payload.bytes.get(), from.payload.size)));
    return true;
  }
  if (header.kind != FrameKind::kData) return false;
  absl::MutexLock lock(&mu);
  if (aborted.contains(header.tag.run)) return true;
  std::unique_ptr<Box>& box = boxes[{from.uid, header.tag}];
  if (box == nullptr) box = std::make_unique<Box>();
  box->messages.push_back(std::move(from.payload));
  box->arrived.Signal();
  return true;
}

bool Wire::State::Greet(Incoming& from, const Key& secret, uint64_t uid) {
  const bool is_uid = uid != 0 && (uid & kOutgoing) == 0 && uid != self.uid;
  if (from.uid != 0 || !SameKey(secret, self.secret) || !is_uid || !connected.insert(uid).second) return false;
  from.uid = uid;
  ForgetStranger(from.name);
  from.connection.Greeted();
  // The hello was all that was staged: a stranger's bytes are read up to its end.
  from.staging_bytes = kStagingBytes;
  from.staging = std::make_unique<char[]>(kStagingBytes);
  return true;
}

absl::Status Wire::State::Failure(uint64_t from, int64_t run) const {
  if (auto it = aborted.find(run); it != aborted.end()) return it->second;
  if (auto it = lost.find(from); it != lost.end()) return it->second;
  return absl::OkStatus();
}

void Wire::State::WakeAll() {
  for (auto& [key, box] : boxes) box->arrived.SignalAll();
}

void Wire::State::MarkLost(uint64_t uid, const std::string& why) {
  absl::MutexLock lock(&mu);
  const auto named = names.find(uid);
  const std::string name = named == names.end() ? absl::StrCat(uid) : named->second;
  lost.insert({uid, absl::UnavailableError(absl::StrCat("process ", name, " of the computation is gone: ", why))});
  if (auto it = outgoing.find(uid); it != outgoing.end()) {
    epoll_ctl(epoll.fd(), EPOLL_CTL_DEL, it->second->connection.fd(), nullptr);
    it->second->connection.Shutdown();  // stops threads that are writing to it
    outgoing.erase(it);
  }
  absl::erase_if(boxes, [uid](const auto& entry) { return entry.first.first == uid && entry.second->waiting == 0; });
  WakeAll();
}

bool Wire::State::MarkAborted(int64_t run, const absl::Status& why) {
  std::function<void(int64_t, const absl::Status&)> tell;
  {
    absl::MutexLock lock(&mu);
    if (!aborted.insert({run, why}).second) return false;
    aborted_order.push_back(run);
    if (aborted_order.size() > kRememberedAborts) {
      aborted.erase(aborted_order.front());
      aborted_order.pop_front();
    }
    absl::erase_if(boxes, [run](const auto& entry) { return entry.first.second.run == run && entry.second->waiting == 0; });
    WakeAll();
    tell = on_abort;
  }
  if (tell) tell(run, why);
  return true;
}

absl::StatusOr<std::shared_ptr<Wire::State::Outgoing>> Wire::State::FindWay(uint64_t to) {
  absl::MutexLock lock(&mu);
  if (auto it = outgoing.find(to); it != outgoing.end()) return it->second;
  if (auto it = lost.find(to); it != lost.end()) return it->second;
  return absl::InternalError("a message to a process that was not connected");
}

Wire::Wire(std::shared_ptr<State> state) : state_(std::move(state)) {}
Wire::~Wire() = default;
const ProcessAddress& Wire::self() const { return state_->self; }

absl::StatusOr<std::shared_ptr<Wire>> Wire::Open(const std::string& reachable_as, const std::string& island,
                                                 std::chrono::milliseconds greeting) {
  auto state = std::make_shared<State>();
  if (absl::Status status = state->Start(reachable_as, island, greeting); !status.ok()) return status;
  return std::shared_ptr<Wire>(new Wire(std::move(state)));
}

absl::Status Wire::Connect(const ProcessAddress& to) {
  absl::MutexLock connecting(&state_->connect_mu);
  {
    absl::MutexLock lock(&state_->mu);
    if (state_->outgoing.contains(to.uid)) return absl::OkStatus();
    if (auto it = state_->lost.find(to.uid); it != state_->lost.end()) return it->second;
  }
  absl::StatusOr<Connection> connection = ConnectTo(to);
  FrameHeader hello;
  hello.kind = FrameKind::kHello;
  hello.tag = HelloTag(state_->self.uid, to.secret);
  absl::Status status = connection.ok() ? connection->Send({AsBytes(hello)}) : connection.status();
  if (!status.ok()) {
    state_->MarkLost(to.uid, std::string(status.message()));
    return Lost(to.uid);
  }
  auto way = std::make_shared<State::Outgoing>();
  way->uid = to.uid;
  way->same_island = to.island == state_->self.island;
  way->connection = *std::move(connection);
  absl::MutexLock lock(&state_->mu);
  state_->outgoing[to.uid] = way;
  state_->Watch(way->connection.fd(), to.uid | kOutgoing);
  return absl::OkStatus();
}

absl::Status Wire::Send(uint64_t to, const MessageTag& tag, absl::Span<const absl::string_view> parts) {
  absl::StatusOr<std::shared_ptr<State::Outgoing>> way = state_->FindWay(to);
  if (!way.ok()) return way.status();
  FrameHeader header;
  header.tag = tag;
  std::vector<absl::string_view> all = {AsBytes(header)};
  for (absl::string_view part : parts) {
    header.size += part.size();
    all.push_back(part);
  }
  {
    absl::MutexLock lock(&state_->mu);
    Traffic& traffic = state_->traffic;
    ((*way)->same_island ? traffic.messages : traffic.messages_between_islands) += 1;
    ((*way)->same_island ? traffic.bytes : traffic.bytes_between_islands) += static_cast<int64_t>(header.size);
  }
  absl::Status status;
  {
    absl::MutexLock lock(&(*way)->write_mu);
    status = (*way)->connection.Send(all);
  }
  if (status.ok()) return status;
  state_->MarkLost(to, std::string(status.message()));
  return Lost(to);
}

absl::StatusOr<Message> Wire::Receive(uint64_t from, const MessageTag& tag) {
  absl::MutexLock lock(&state_->mu);
  const State::BoxKey key{from, tag};
  while (true) {
    auto it = state_->boxes.find(key);
    if (it != state_->boxes.end() && !it->second->messages.empty()) {
      Message message = std::move(it->second->messages.front());
      it->second->messages.pop_front();
      if (it->second->messages.empty() && it->second->waiting == 0) state_->boxes.erase(it);
      return message;
    }
    if (absl::Status failure = state_->Failure(from, tag.run); !failure.ok()) {
      if (it != state_->boxes.end() && it->second->waiting == 0) state_->boxes.erase(it);
      return failure;
    }
    if (it == state_->boxes.end()) it = state_->boxes.emplace(key, std::make_unique<State::Box>()).first;
    State::Box& box = *it->second;
    ++box.waiting;
    box.arrived.Wait(&state_->mu);
    --box.waiting;
  }
}

void Wire::Abort(int64_t run, const absl::Status& why) {
  if (!state_->MarkAborted(run, why)) return;
  FrameHeader header;
  header.kind = FrameKind::kAbort;
  header.tag.run = run;
  header.tag.step = static_cast<int64_t>(why.code());
  header.size = why.message().size();
  std::vector<std::shared_ptr<State::Outgoing>> ways;
  {
    absl::MutexLock lock(&state_->mu);
    for (const auto& [uid, way] : state_->outgoing) ways.push_back(way);
  }
  for (const auto& way : ways) {
    absl::MutexLock lock(&way->write_mu);
    way->connection.Send({AsBytes(header), why.message()}).IgnoreError();
  }
}

absl::Status Wire::Aborted(int64_t run) const {
  absl::MutexLock lock(&state_->mu);
  auto it = state_->aborted.find(run);
  return it == state_->aborted.end() ? absl::OkStatus() : it->second;
}

void Wire::SetOnAbort(std::function<void(int64_t, const absl::Status&)> on_abort) {
  absl::MutexLock lock(&state_->mu);
  state_->on_abort = std::move(on_abort);
}

void Wire::Name(uint64_t uid, std::string name) {
  absl::MutexLock lock(&state_->mu);
  state_->names[uid] = std::move(name);
}

void Wire::Lose(uint64_t uid, const std::string& why) { state_->MarkLost(uid, why); }

absl::Status Wire::Lost(uint64_t uid) const {
  absl::MutexLock lock(&state_->mu);
  auto it = state_->lost.find(uid);
  return it == state_->lost.end() ? absl::OkStatus() : it->second;
}

Wire::Traffic Wire::traffic() const {
  absl::MutexLock lock(&state_->mu);
  return state_->traffic;
}

}  // namespace pw::pjrt_cpu
