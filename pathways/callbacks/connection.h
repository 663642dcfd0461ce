// Connection: one connection of a Python process to the callback socket (call_message.h). Its first message names the process by a token; then
// calls go down and answers come up.
//
// Invariants:
//   CX-1  the caller (caller.h) is registered when the process has named its token, and once only; it is removed when the connection ends
//   CX-2  calls are written whole, one after another, in the order of Write
//   CX-3  an answer that is too large is read to its end and replaced by RESOURCE_EXHAUSTED: what comes behind it counts
// Runs on the socket's thread (call_socket.h), where it keeps itself alive while something is under way. What concerns the caller is posted to
// the strand.
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

  // `io` runs the socket's thread.
  Connection(const std::shared_ptr<asio::io_context>& io, Socket socket, CallSocket::Door door)
      : io_(io), socket_(std::move(socket)), door_(std::move(door)) {}

  void Start();
  void Write(uint64_t number, session::HostCall call);
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
  void Pass(absl::StatusOr<std::vector<Bytes>> results);
  void WriteNext();
  void Refuse(const absl::Status& why);
  // Returns a function for the strand, which runs a task with this connection on the socket's thread, if both still exist.
  std::function<void(std::function<void(Connection&)>)> OnThread();

  const std::weak_ptr<asio::io_context> io_;
  Socket socket_;
  const CallSocket::Door door_;
  std::shared_ptr<Caller> caller_;
  bool named_ = false;  // the token has come
  bool closed_ = false;
  uint8_t length_[4];
  std::string header_;
  PythonMessage message_;  // being read
  std::string dropped_;    // a part of what is too large
  std::deque<Outgoing> outgoing_;  // the first is being written
};

}  // namespace pw::callbacks
