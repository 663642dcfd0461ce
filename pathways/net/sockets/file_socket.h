// FileSocket: one end of a Unix socket that passes open files (SCM_RIGHTS) to another process of this machine, each with a short
// header.
//
// Lanes (lanes/lane_end.h) use it for large arrays in shared memory: they send the array's file and do not copy its bytes. Only a
// process that has received the descriptor can map the memory, so the memory needs no name that other processes could open. The
// two processes may belong to different users.
//
// A worker has one FileListener, which accepts such sockets at an abstract address of its own choice. For each client, the worker
// calls Expect and tells the client the address and the returned key over their lane. The client connects (ConnectFileSocket) and
// sends the key. The listener passes the socket to the callback of that Expect. If the client cannot connect, because it is on
// another machine or in another network namespace, array bytes travel over the lane itself.
//
// Invariants:
//   FD-1  packets arrive in the order of Send, each whole and with its file, or the socket closes
//   FD-2  a handler's methods run one at a time on a thread of the transport. OnFilesClosed is the last call and comes once,
//         unless the socket is destroyed first
//   FD-3  an accepted socket that does not send a known key within 10 seconds is closed, without effect on anything else
//   FD-4  each key admits one socket
// Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/net/sockets/socket.h"

namespace pw::net {

class EventLoop;
class FileStream;
class FileAcceptor;

class FileSocket {
 public:
  static constexpr size_t kMostHeaderBytes = 4 << 10;

  class Handler {
   public:
    virtual ~Handler() = default;
    // Takes an arrived packet. `file` is not valid if the packet carried none.
    virtual void OnFile(std::string header, Fd file) = 0;
    virtual void OnFilesClosed(const absl::Status& reason) = 0;
  };

  explicit FileSocket(std::shared_ptr<FileStream> stream);
  ~FileSocket();  // closes; after it returns no handler method runs

  // Begins delivery. Called once. `handler` must outlive the socket.
  void Start(Handler* handler);
  // Queues a packet; never blocks. `file` is -1 for a packet without a file. `owner` keeps `file` open until the packet has been
  // sent or the socket has closed. REQUIRES: the header is not empty, and at most kMostHeaderBytes long.
  void Send(std::string header, int file, std::shared_ptr<const void> owner);
  // Returns whether the other process runs as the same user as this one.
  bool same_user() const;

 private:
  const std::shared_ptr<FileStream> stream_;
};

class FileListener {
 public:
  using Connected = std::function<void(std::unique_ptr<FileSocket>)>;

  // Starts to listen. An error means that the system allows no such socket: array bytes then travel over lanes alone.
  static absl::StatusOr<std::unique_ptr<FileListener>> Create(std::shared_ptr<EventLoop> loop);
  ~FileListener();  // stops accepting; afterwards no callback runs

  const std::string& address() const;
  // Returns a new secret key. `connected` receives the one socket that shows it, on a thread of the transport.
  std::string Expect(Connected connected);
  // Withdraws a key. Does not wait for a callback that is running already.
  void Forget(const std::string& key);

 private:
  explicit FileListener(std::shared_ptr<FileAcceptor> acceptor);
  const std::shared_ptr<FileAcceptor> acceptor_;
};

// Connects to a listener of this machine and sends the key. The listener closes the socket if it does not know the key.
// UNAVAILABLE: this machine and network namespace have no such listener. INVALID_ARGUMENT: not the address of a Unix socket.
absl::StatusOr<std::unique_ptr<FileSocket>> ConnectFileSocket(std::shared_ptr<EventLoop> loop, const std::string& address,
                                                              const std::string& key);

}  // namespace pw::net
