// SessionStream: the gRPC side of one session. Reads requests, runs them in the ClientSession on the strand and writes responses.
//
// Reading. A read is in flight until the backlog reaches its limit. Then gRPC's flow control holds the client back until the
// backlog has halved. The backlog is the requests that have not run, including those of a suspended client, and the responses
// that have not been sent. Parsing and decoding happen on the reading thread.
//
// Writing. Responses queue up on the strand and are sent in batches, one at a time. A batch belongs to gRPC's threads until its
// last message is sent; then the strand hands over the next one. Each write wakes a thread of the client, which costs a quarter
// of a call y = f(y). So a response that no thread of the client waits for is delayed: until there is one that a thread waits
// for, there are 256 responses, or two milliseconds have passed.
//
// Lives until gRPC's OnDone, and as long as tasks on the strand refer to it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <vector>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/server_state.h"

namespace pw::frontend {

class SessionStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public ResponseSink,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  static SessionStream* Open(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context);

  explicit SessionStream(std::shared_ptr<ServerState> server) : server_(std::move(server)) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

 private:
  void Write(IfrtResponse response) override;  // strand
  void Ran(int64_t bytes) override;            // strand
  void Run(DecodedRequest request);            // strand
  void Flush();                                // strand
  void FlushSoon();                            // strand
  void Close(grpc::Status status);             // strand
  bool OverLimit(int64_t share) const;
  void ResumeReading();
  void SendNext();

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<SessionStream> self_;  // until OnDone

  // Shared.
  std::atomic<int64_t> backlog_requests_{0};
  std::atomic<int64_t> backlog_bytes_{0};
  std::atomic<int64_t> unsent_{0};
  std::atomic<bool> paused_{false};  // no read is in flight; the code that resets it starts one
  std::atomic<bool> closed_{false};
  std::atomic<bool> sending_now_{false};
  std::atomic<bool> more_queued_{false};

  // Of the thread that reads.
  grpc::ByteBuffer incoming_;
  int64_t requests_read_ = 0;

  // Of gRPC's threads while sending_now_, else of the strand.
  std::vector<grpc::ByteBuffer> batch_;
  size_t batch_next_ = 0;

  // Of the strand.
  std::shared_ptr<ClientSession> session_;
  std::vector<grpc::ByteBuffer> queued_;
  bool running_ = false;    // inside Run, which flushes its answers at the end
  bool urgent_ = false;     // the client waits for the answer of the running request
  bool flush_due_ = false;  // the alarm is set
  grpc::Alarm alarm_;
  bool closing_ = false;
  bool finished_ = false;
  grpc::Status close_status_;
};

}  // namespace pw::frontend
