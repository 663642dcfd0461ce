// Call: one RPC passing through. It has two halves, the one the client opened with us and the one we open with the controller;
// frames are pumped both ways as they are, and headers, trailers and the final status are passed on.
//
// Where the client leaves an array in a file for this relay, its request is answered otherwise: the controller gets the file's contents, over
// the bulk line, or by another RPC.
//
// Everything happens on the one thread that drains the relay's completion queue: that thread is the strand of all calls, there is
// no lock, and a frame goes from socket to socket without changing threads. A Call owns itself: it is born waiting for an RPC and
// deletes itself when both halves have ended and no operation is under way.
//
// Invariants:
//   CA-1  at most one read and one write is under way per half; a direction stops reading while more than kWindow bytes wait to
//         be written, so that a slow side brakes the fast one instead of filling memory
//   CA-2  frames keep their order in each direction; those received from the controller before it went are delivered before any
//         answer made here
//   CA-3  when the client cancels, the controller's half is cancelled; the client's half always gets a status otherwise
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "pathways/relay/controller_line.h"
#include "pathways/relay/file_upload.h"
#include "pathways/relay/traffic.h"

namespace pw::relay {

// What the calls of one relay share. Outlives them.
struct Hub {
  std::string controller;  // host:port, for texts
  grpc::AsyncGenericService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::unique_ptr<grpc::GenericStub> stub;
  GoneSessions gone;
  ClientFiles files;
  ControllerLine* line = nullptr;  // may be null
  int calls = 0;                   // alive, the waiting ones included; at 0 the queue may be shut down
};

class Call {
 public:
  // A finished operation: what the completion queue hands back.
  struct Event {
    Call* call;
    void (Call::*handle)(bool ok);
    void Run(bool ok);
  };

  // Waits for the next RPC that a client opens.
  static void Await(Hub* hub);

 private:
  static constexpr size_t kWindow = 8 << 20;

  // A direction's frames waiting to be written.
  struct Lane {
    std::deque<grpc::ByteBuffer> waiting;
    size_t bytes = 0;                          // of `waiting`
    bool writing = false;                      // a write is under way
    bool reading = false;                      // a read of what feeds this lane is under way
    bool ended = false;                        // nothing more will be read
    void Push(const grpc::ByteBuffer& frame);  // shares the bytes
    grpc::ByteBuffer Pop();
  };

  explicit Call(Hub* hub);
  ~Call();

  void OnAccepted(bool ok);
  void OnClientGone(bool ok);
  void OnClientRead(bool ok);
  void OnClientWritten(bool ok);
  void OnFinished(bool ok);
  void OnControllerStarted(bool ok);
  void OnControllerRead(bool ok);
  void OnControllerWritten(bool ok);
  void OnHalfClosed(bool ok);
  void OnControllerEnded(bool ok);

  void StartController(const std::string& method);
  void StartUpload();  // of the file that the client's one request names
  void TakeFile();
  // What the line calls.
  struct Uploading {
    std::function<void(absl::Status)> done;
    std::function<void()> otherwise;
  };
  Uploading BeginUploading();
  void UploadByCall();
  void OnUploaded(bool ok);
  void EndWith(const absl::Status& status);
  void FeedUpload();
  void PumpUp();    // client to controller
  void PumpDown();  // controller, or this relay in its place, to client
  void ReadClient();
  void ReadController();
  void TakeOver();
  void SendHeaders();
  void* Begin(Event* event);  // counts an operation and gives its tag

  Hub* const hub_;
  std::unique_ptr<Traffic> traffic_;
  int under_way_ = 0;

  grpc::GenericServerContext client_context_;
  grpc::GenericServerAsyncReaderWriter client_;
  grpc::ByteBuffer from_client_;
  Lane up_;
  std::unique_ptr<FileUpload> upload_;  // goes up instead of what the client sends
  // What became of it on the line; nothing: it has to go another way. Written by the line's thread before it sets the alarm.
  std::optional<absl::Status> uploaded_status_;
  grpc::Alarm uploaded_alarm_;
  bool client_gone_ = false;  // cancelled, or finished
  bool finishing_ = false;    // Finish of the client's half has been called

  grpc::ClientContext controller_context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> controller_;
  grpc::ByteBuffer from_controller_;
  Lane down_;
  bool started_ = false;      // the controller's half takes frames
  bool half_closed_ = false;  // told the controller that the client has finished
  bool headers_sent_ = false;
  bool ended_ = false;  // the controller's half has ended, with end_
  bool taken_over_ = false;
  grpc::Status end_;

  Event accepted_{this, &Call::OnAccepted}, gone_{this, &Call::OnClientGone}, client_read_{this, &Call::OnClientRead},
      client_written_{this, &Call::OnClientWritten}, finished_{this, &Call::OnFinished},
      controller_started_{this, &Call::OnControllerStarted}, controller_read_{this, &Call::OnControllerRead},
      controller_written_{this, &Call::OnControllerWritten}, closed_{this, &Call::OnHalfClosed},
      uploaded_{this, &Call::OnUploaded}, controller_ended_{this, &Call::OnControllerEnded};
};

}  // namespace pw::relay
