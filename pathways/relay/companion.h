// Companion: one connection of a Python process, with its HostCalls stream at the server (proto/pathways/v1/client.proto).
//
// Invariants:
//   CO-1  the stream is opened when the process has named its token, and once only
//   CO-2  the next call is read from the controller when the one before it has been written to Python: a process that does not
//         read brakes the controller instead of filling memory
//   CO-3  answers go up in the order in which Python wrote them
// Runs on the bridge's io_context, which has one thread. Keeps itself alive while the socket or the stream has something under
// way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "grpcpp/channel.h"
#include "pathways/relay/call_message.h"

namespace pw::relay {

class Companion : public std::enable_shared_from_this<Companion> {
 public:
  using Socket = asio::local::stream_protocol::socket;

  Companion(Socket socket, std::shared_ptr<grpc::Channel> channel);

  void Start() { ReadLength(); }
  // Ends both sides. The rest of what is under way ends by itself.
  void Close();

 private:
  class Stream;

  void ReadLength();
  void ReadHeader(uint32_t length);
  void OnHeader();
  void OnPayload();
  // What does not fit is read all the same: what comes behind it counts.
  void DropPayload(uint64_t left);
  void OpenStream(const std::string& token);
  void SendUp(pathways::v1::HostCallAnswer answer);

  // Posted by the stream.
  void OnCall();
  void OnSentUp();

  Socket socket_;
  const std::shared_ptr<grpc::Channel> channel_;
  Stream* stream_ = nullptr;  // while it may be used; deletes itself later
  bool closed_ = false;

  uint8_t length_[4];
  std::string header_;
  PythonMessage message_;                             // being read from Python
  std::string dropped_;                               // a part of what is too large
  std::deque<pathways::v1::HostCallAnswer> answers_;  // the first is being sent
  std::string call_header_;                           // being written to Python, with the operands of the stream's call
};

}  // namespace pw::relay
