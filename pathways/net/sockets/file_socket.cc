#include "pathways/net/sockets/file_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/address.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/transport.h"

namespace pw::net {

struct ReceivedPacket {
  std::string header;
  Fd file;
};

namespace {

constexpr std::chrono::seconds kGreetingTime{10};
constexpr std::chrono::milliseconds kAcceptRetry{100};  // when the system is out of descriptors or memory
constexpr size_t kMostStrangers = 64;
constexpr size_t kRandomNameBytes = 16;

// Room for the one descriptor of a packet, as the system wants it aligned.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// Returns 0, or the errno.
int SendPacket(int socket, const std::string& header, int file) {
  iovec piece = {const_cast<char*>(header.data()), header.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(int));
  }
  while (true) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

// Returns UNAVAILABLE with the errno's text, or INVALID_ARGUMENT if it is not a packet of ours. `blocked`: there is none yet.
absl::StatusOr<ReceivedPacket> ReceivePacket(int socket, bool* blocked) {
  std::string header(FileSocket::kMostHeaderBytes, '\0');
  iovec piece = {header.data(), header.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  *blocked = size < 0 && WouldBlock(errno);
  if (size < 0) return SocketError(errno, "the socket for open files was lost");
  // The alignment of the control data leaves room for more than one descriptor; all of them are ours to close.
  std::vector<Fd> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(part) + at, sizeof(int));
      files.emplace_back(file);
    }
  }
  if (size == 0) return absl::UnavailableError("the socket for open files was closed by the peer");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || files.size() > 1)
    return absl::InvalidArgumentError("a packet on the socket for open files is too large, or has more than one file");
  header.resize(static_cast<size_t>(size));
  return ReceivedPacket{std::move(header), files.empty() ? Fd() : std::move(files.front())};
}

bool IsSameUser(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 && credentials.uid == ::geteuid();
}

}  // namespace

// The part of a FileSocket that operations on the loop share.
class FileStream : public std::enable_shared_from_this<FileStream> {
 public:
  struct Packet {
    std::string header;
    int file = -1;  // none
    std::shared_ptr<const void> owner;
  };

  FileStream(std::shared_ptr<EventLoop> loop, Fd fd)
      : loop_(std::move(loop)), same_user_(IsSameUser(fd.get())), initial_fd_(std::move(fd)), descriptor_(loop_->io()) {}

  // Called once, before any other thread knows of the stream.
  void Open() {
    if (loop_->RunsHere()) return OpenHere();  // at once: a Start posted by another thread could overtake a task posted here
    loop_->Post([self = shared_from_this()] { self->OpenHere(); });
  }
  void Start(FileSocket::Handler* handler) {
    loop_->Post([self = shared_from_this(), handler] {
      self->gate_.Attach(handler);
      self->closed_ ? self->SayClosed() : self->Read();
    });
  }
  void Send(Packet packet) {
    loop_->Post([self = shared_from_this(), packet = std::move(packet)]() mutable {
      if (self->closed_) return;
      self->packets_.push_back(std::move(packet));
      if (self->packets_.size() == 1) self->Write();
    });
  }
  void Abandon() {
    gate_.Detach(loop_->RunsHere());
    loop_->Post([self = shared_from_this()] { self->Shut(absl::CancelledError("the socket for open files was destroyed")); });
  }
  bool same_user() const { return same_user_; }

 private:
  void OpenHere() {
    asio::error_code error;
    descriptor_.assign(initial_fd_.get(), error);
    if (error) return Shut(SocketError(error.value(), "cannot watch a socket for open files"));
    initial_fd_.Release();
    shutdown_hook_ = loop_->AddShutdownHook([this] {
      const auto self = shared_from_this();
      shutdown_hook_ = 0;
      Shut(absl::CancelledError("the transport of a socket for open files was shut down"));
    });
  }

  void Read() {
    while (!closed_) {
      bool blocked = false;
      absl::StatusOr<ReceivedPacket> packet = ReceivePacket(descriptor_.native_handle(), &blocked);
      if (blocked) break;
      if (!packet.ok()) return Shut(packet.status());
      gate_.Call([&](FileSocket::Handler* handler) { handler->OnFile(std::move(packet->header), std::move(packet->file)); });
    }
    if (closed_) return;
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](asio::error_code) { self->Read(); });
  }

  void Write() {
    while (!closed_ && !packets_.empty()) {
      const int error = SendPacket(descriptor_.native_handle(), packets_.front().header, packets_.front().file);
      if (WouldBlock(error)) break;
      if (error != 0) return Shut(SocketError(error, "an open file could not be sent"));
      packets_.pop_front();
    }
    if (closed_ || packets_.empty()) return;
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                           [self = shared_from_this()](asio::error_code) { self->Write(); });
  }

  void Shut(absl::Status reason) {
    if (std::exchange(closed_, true)) return;
    reason_ = std::move(reason);
    asio::error_code ignored;
    (void)descriptor_.close(ignored);
    initial_fd_ = Fd();
    packets_.clear();
    if (shutdown_hook_ != 0) loop_->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
    SayClosed();
  }
  void SayClosed() {
    gate_.Call([&](FileSocket::Handler* handler) { handler->OnFilesClosed(reason_); });
  }

  const std::shared_ptr<EventLoop> loop_;
  const bool same_user_;
  HandlerGate<FileSocket::Handler> gate_;
  // Of the loop.
  Fd initial_fd_;  // until OpenHere
  asio::posix::stream_descriptor descriptor_;
  std::deque<Packet> packets_;  // not sent yet
  uint64_t shutdown_hook_ = 0;
  bool closed_ = false;
  absl::Status reason_;
};

FileSocket::FileSocket(std::shared_ptr<FileStream> stream) : stream_(std::move(stream)) {}
FileSocket::~FileSocket() { stream_->Abandon(); }
void FileSocket::Start(Handler* handler) { stream_->Start(handler); }
void FileSocket::Send(std::string header, int file, std::shared_ptr<const void> owner) {
  PW_CHECK(!header.empty() && header.size() <= kMostHeaderBytes);
  stream_->Send({std::move(header), file, std::move(owner)});
}
bool FileSocket::same_user() const { return stream_->same_user(); }

// The part of a FileListener that operations on the loop share.
class FileAcceptor : public std::enable_shared_from_this<FileAcceptor> {
 public:
  FileAcceptor(std::shared_ptr<EventLoop> loop, Fd fd, std::string address)
      : loop_(std::move(loop)),
        address_(std::move(address)),
        initial_fd_(std::move(fd)),
        descriptor_(loop_->io()),
        retry_(loop_->io()) {}

  void Open() {
    loop_->Post([self = shared_from_this()] { self->OpenHere(); });
  }
  const std::string& address() const { return address_; }
  std::string Expect(FileListener::Connected connected) {
    std::string key = RandomKey();
    const std::lock_guard<std::mutex> lock(mu_);
    expected_.emplace(key, std::move(connected));
    return key;
  }
  void Forget(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mu_);
    expected_.erase(key);
  }
  void Abandon() {
    gate_.Detach(loop_->RunsHere());
    loop_->Post([self = shared_from_this()] { self->Release(); });
  }

 private:
  // A socket that has not shown its key yet.
  struct Stranger {
    Stranger(EventLoop& loop, uint64_t id, Fd fd) : id(id), socket(std::move(fd)), descriptor(loop.io()), timer(loop.io()) {}
    const uint64_t id;
    Fd socket;
    asio::posix::stream_descriptor descriptor;  // watches a duplicate of `socket`
    asio::steady_timer timer;
  };

  void OpenHere() {
    gate_.Attach(this);
    asio::error_code error;
    descriptor_.assign(initial_fd_.get(), error);
    if (error) {
      PW_LOG_ERROR << "cannot accept sockets for open files: " << error.message();
      return;
    }
    initial_fd_.Release();
    shutdown_hook_ = loop_->AddShutdownHook([this] {
      const auto self = shared_from_this();
      shutdown_hook_ = 0;
      Release();
    });
    Arm();
  }

  void Arm() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](asio::error_code) { self->AcceptAll(); });
  }

  void AcceptAll() {
    while (!released_) {
      Fd fd(::accept4(descriptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        Greet(std::move(fd));
      } else if (WouldBlock(errno)) {
        return Arm();
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        retry_.expires_after(kAcceptRetry);
        return retry_.async_wait([self = shared_from_this()](asio::error_code) { self->AcceptAll(); });
      }
    }
  }

  void Greet(Fd fd) {
    if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());  // the oldest
    const uint64_t id = next_stranger_++;
    auto& stranger = *strangers_.emplace(id, std::make_unique<Stranger>(*loop_, id, std::move(fd))).first->second;
    asio::error_code error;
    stranger.descriptor.assign(::dup(stranger.socket.get()), error);
    if (error) {
      strangers_.erase(id);
      return;
    }
    stranger.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                   [self = shared_from_this(), id](asio::error_code error) {
                                     if (!error) self->ReadKey(id);
                                   });
    stranger.timer.expires_after(kGreetingTime);
    stranger.timer.async_wait([self = shared_from_this(), id](asio::error_code error) {
      if (!error) self->strangers_.erase(id);
    });
  }

  void ReadKey(uint64_t id) {
    auto node = strangers_.extract(id);
    if (node.empty()) return;
    Fd socket = std::move(node.mapped()->socket);
    node.mapped() = nullptr;
    bool blocked = false;
    const absl::StatusOr<ReceivedPacket> packet = ReceivePacket(socket.get(), &blocked);
    if (!packet.ok() || packet->file.valid()) return;
    FileListener::Connected connected = Take(packet->header);
    if (connected == nullptr) return;
    auto stream = std::make_shared<FileStream>(loop_, std::move(socket));
    stream->Open();
    gate_.Call([&](FileAcceptor*) { connected(std::make_unique<FileSocket>(std::move(stream))); });
  }

  // Keys are long and random, and each admits one socket. So the time of the search does not help to guess a key.
  FileListener::Connected Take(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mu_);
    auto node = expected_.extract(key);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  void Release() {
    if (std::exchange(released_, true)) return;
    asio::error_code ignored;
    (void)descriptor_.close(ignored);
    initial_fd_ = Fd();
    retry_.cancel();
    strangers_.clear();
    if (shutdown_hook_ != 0) loop_->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
  }

  const std::shared_ptr<EventLoop> loop_;
  const std::string address_;
  HandlerGate<FileAcceptor> gate_;  // for the callbacks of Expect
  std::mutex mu_;
  std::map<std::string, FileListener::Connected> expected_;  // by key; mu_
  // Of the loop.
  Fd initial_fd_;  // until OpenHere
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer retry_;
  std::map<uint64_t, std::unique_ptr<Stranger>> strangers_;
  uint64_t next_stranger_ = 1;
  uint64_t shutdown_hook_ = 0;
  bool released_ = false;
};

FileListener::FileListener(std::shared_ptr<FileAcceptor> acceptor) : acceptor_(std::move(acceptor)) {}
FileListener::~FileListener() { acceptor_->Abandon(); }
const std::string& FileListener::address() const { return acceptor_->address(); }
std::string FileListener::Expect(Connected connected) { return acceptor_->Expect(std::move(connected)); }
void FileListener::Forget(const std::string& key) { acceptor_->Forget(key); }

absl::StatusOr<std::unique_ptr<FileListener>> FileListener::Create(std::shared_ptr<EventLoop> loop) {
  Address address;
  address.kind = Address::Kind::kUnix;
  address.path = absl::StrCat("@pathways-", absl::BytesToHexString(RandomKey().substr(0, kRandomNameBytes)));
  PW_ASSIGN_OR_RETURN(Fd fd, ListenSocket(address, SOCK_SEQPACKET));
  auto acceptor = std::make_shared<FileAcceptor>(std::move(loop), std::move(fd), ToString(address));
  acceptor->Open();
  return std::unique_ptr<FileListener>(new FileListener(std::move(acceptor)));
}

absl::StatusOr<std::unique_ptr<FileSocket>> ConnectFileSocket(std::shared_ptr<EventLoop> loop, const std::string& address,
                                                              const std::string& key) {
  PW_ASSIGN_OR_RETURN(const Address where, ParseAddress(address));
  if (where.kind != Address::Kind::kUnix) return absl::InvalidArgumentError(absl::StrCat(address, " is not a Unix socket"));
  Fd fd;
  if (const int error = StartConnect(WithoutLookup(where), &fd, SOCK_SEQPACKET); error != 0)
    return SocketError(error, absl::StrCat("cannot connect to ", address));
  auto stream = std::make_shared<FileStream>(std::move(loop), std::move(fd));
  stream->Open();
  auto socket = std::make_unique<FileSocket>(std::move(stream));
  socket->Send(key, -1, nullptr);
  return socket;
}

// Defaults of transport.h. They are here because FileListener and FileSocket are complete types here.
absl::StatusOr<std::unique_ptr<FileListener>> Transport::ListenForFiles() {
  return absl::UnimplementedError("this transport hands no open files over");
}

absl::StatusOr<std::unique_ptr<FileSocket>> Transport::ConnectForFiles(const std::string&, const std::string&) {
  return absl::UnimplementedError("this transport hands no open files over");
}

}  // namespace pw::net
