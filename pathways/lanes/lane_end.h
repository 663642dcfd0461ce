// LaneEnd: one end of a lane, the connection between a client and a worker that carries array bytes past the controller
// (proto/pathways/v1/lane.proto). The owner is client::Lanes at one end and worker::ClientLanes at the other. Both use Receiver
// and Sender, beside this file.
//
// LaneEnd parses messages on the transport's threads and posts them, in order, to its owner's strand. The transport writes
// payloads directly to the memory that the receiver has set aside (net::ReceiveBuffers). Between processes of one machine an array in
// shared memory need not be sent: LaneEnd passes its file over a second socket (net::FileSocket). Messages of the two sockets
// have no order relative to each other.
//
// Invariants:
//   LN-1  OnLaneClosed is called once, after all messages of the connection, unless the LaneEnd is destroyed first
//   LN-2  a frame that is too large closes the lane. Before Open, a frame is too large with any payload, or with a header above
//         kStrangerHeaderBytes. After it, the limits are kHeaderBytes for headers and kPartBytes for payloads
//   LN-3  a message that does not parse, or has a payload although its kind has none, closes the lane; the reason names the fault
//   LN-4  if the file socket closes, the lane closes; if the lane closes, the owner destroys the LaneEnd and with it the file socket
//   LN-5  calls that were posted before the lane closed or the LaneEnd was destroyed still arrive. The owner ignores those of a LaneId that
//         it no longer has
// All methods are called on the owner's strand. The transport calls the handler methods on its own threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/receive_buffers.h"
#include "pathways/net/sockets/file_socket.h"
#include "pathways/net/transport.h"
#include "pathways/v1/lane.pb.h"

namespace pw::lanes {

using LaneId = uint64_t;

inline constexpr uint32_t kVersion = 1;  // of the protocol
inline constexpr size_t kStrangerHeaderBytes = 4 << 10;
inline constexpr size_t kHeaderBytes = 1 << 20;
inline constexpr size_t kPartBytes = 1 << 20;          // largest payload of one message: longer bytes are sent in parts
inline constexpr size_t kCallBytes = size_t{2} << 30;  // most operands of a host call, and most results

class LaneEnd final : public net::Connection::Handler, private net::FileSocket::Handler {
 public:
  // Called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    // `payload` of LaneBytes: a part of the named bytes, or all of them in the memory that the other end handed over. Of a call or an answer:
    // its bytes, if they are few. Otherwise empty.
    virtual void OnLaneMessage(LaneId lane, ::pathways::v1::LaneMessage message, Bytes payload) = 0;
    // Called after CanSend has returned false, once it would return true.
    virtual void OnLaneWritable(LaneId lane) = 0;
    virtual void OnLaneClosed(LaneId lane, const absl::Status& reason) = 0;
  };
  // Runs a function with the owner on its strand, or drops it if the owner is gone. Called on any thread.
  using PostToOwner = std::function<void(absl::AnyInvocable<void(Owner&) &&>)>;

  // `id`: chosen by the owner, to tell its lanes apart.
  LaneEnd(LaneId id, std::unique_ptr<net::Connection> connection, PostToOwner post)
      : id_(id), post_(std::move(post)), connection_(std::move(connection)) {}

  // Starts delivery of messages.
  void Start() { connection_->Start(this); }
  // Permits payloads, and large headers. Payloads of names that `receive_buffers` expects are written to its memory. Called once: by a worker when the
  // client has shown its key, by a client at once.
  void Open(std::shared_ptr<net::ReceiveBuffers> receive_buffers);
  // Queues a message; never blocks. `payload`: at most kPartBytes, and only with LaneBytes, LaneCall and LaneAnswer.
  void Send(const ::pathways::v1::LaneMessage& message, Bytes payload = Bytes());
  // Returns false while too many bytes wait to be sent. A sender should then wait for OnLaneWritable.
  bool CanSend() const { return connection_->CanSendBulk(); }
  // Starts to pass and receive shared memory through `files`. Called once.
  void ShareMemory(std::unique_ptr<net::FileSocket> files);
  bool shares_memory() const { return files_ != nullptr; }
  // Passes `data` as shared memory. `message`: LaneBytes with offset 0 and the size of `data`, which are all bytes of its name. Returns false,
  // and sends nothing, if `data` is not in shared memory or is too small to be worth it, or if the lane shares no memory.
  bool HandOver(::pathways::v1::LaneMessage message, const Bytes& data);
  void Close(const absl::Status& reason) { connection_->Close(reason); }
  LaneId id() const { return id_; }

 private:
  void OnFrame(net::Frame frame) override;
  void OnClosed(const absl::Status& reason) override;
  void OnBulkWritable() override;
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override;
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override;
  // net::FileSocket::Handler
  void OnFile(std::string header, net::Fd file) override;
  void OnFilesClosed(const absl::Status& reason) override;

  const LaneId id_;
  const PostToOwner post_;
  std::shared_ptr<net::ReceiveBuffers> receive_buffers_;  // written before open_ is set
  std::atomic<bool> open_ = false;
  // Last: closed before the other members are destroyed.
  const std::unique_ptr<net::Connection> connection_;
  std::unique_ptr<net::FileSocket> files_;
};

// Returns the name of bytes of a host buffer or a fetch; 0 names nothing. Bytes of host calls have a name of their own, `call`.
inline uint64_t NameOf(const ::pathways::v1::LaneBytes& bytes) { return bytes.has_buffer() ? bytes.buffer() : bytes.fetch(); }

}  // namespace pw::lanes
