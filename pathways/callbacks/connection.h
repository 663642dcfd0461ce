// Connection: one connection of a Python process to the callback socket, by which its functions are called (call_message.h). The socket
// belongs to the front door, the agent or plugin that has the process's sessions. The process first sends its token, which names the
// sessions whose calls it answers. Then this side sends calls, and the process sends answers.
//
// Invariants:
//   CX-1  the first message, and no other, is the token. It registers the connection's Caller (caller.h) with the front door; a
//         refused token ends the connection. The end of the connection removes the Caller and calls its OnClosed
//   CX-2  calls are written whole, one after another, in the order of Write
//   CX-3  an answer that is too large is read to its end and becomes RESOURCE_EXHAUSTED. Later answers can still be read
// Every method runs on the thread of the callback socket (call_socket.h). Pending reads and writes keep the connection alive. The Caller
// lives on the strand of the front door: all calls of it are posted there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "pathways/callbacks/call_message.h"
#include "pathways/callbacks/call_socket.h"
#include "pathways/callbacks/caller.h"

namespace pw::callbacks {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = asio::local::stream_protocol::socket;

  // The thread of the socket runs `io`.
  Connection(const std::shared_ptr<asio::io_context>& io, Socket socket, CallSocket::Door door)
      : io_(io), socket_(std::move(socket)), door_(std::move(door)) {}

  // Begins to read.
  void Start();
  // Queues a call for the process. Does nothing once the connection is closed.
  void Write(uint64_t number, session::HostCall call);
  // May be called more than once.
  void Close();

 private:
  struct Outgoing {
    std::string header;
    std::vector<Bytes> operands;
  };

  void ReadLength();
  void ReadHeader(uint32_t length);
  void OnHeader();
  void Register(const std::string& token);
  void ReadResults();
  void DropResults(uint64_t left);
  // Hands an answer to the Caller, and reads the next one.
  void PassToCaller(absl::StatusOr<std::vector<Bytes>> results);
  void WriteNext();
  // Logs a breach of the protocol, and closes the connection.
  void CloseBecause(const absl::Status& why);
  // Returns a function for the strand that runs a task with this connection on the socket's thread, if the connection is alive.
  std::function<void(std::function<void(Connection&)>)> PosterToThread();

  const std::weak_ptr<asio::io_context> io_;
  Socket socket_;
  const CallSocket::Door door_;
  std::shared_ptr<Caller> caller_;
  bool named_ = false;  // the token has been read
  bool closed_ = false;
  uint8_t length_[4];
  std::string header_;
  PythonMessage message_;          // being read
  std::string dropped_;            // the part of a too large answer that is being read
  std::deque<Outgoing> outgoing_;  // the first is being written
};

}  // namespace pw::callbacks
