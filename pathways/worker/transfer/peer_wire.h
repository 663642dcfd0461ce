// PeerWire: one connection between two workers (peer.proto). It parses messages on the transport's threads and posts them, in order, to
// its owner's strand. It answers pings on the transport's thread, so that a long step on the strand does not look like a dead host.
// Chunks are received in the memory that waits for them.
//
// Invariants:
//   PW-1  OnPeerClosed is called once, after all messages of the connection, unless the PeerWire is destroyed first
//   PW-2  nothing is received in place before Open, and nothing is written there after OnPeerClosed. So the owner can let one
//         connection at a time write to the memory of a transfer
// Lives on the worker's strand; the connection's threads only post to it and answer pings.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/net/receive_buffers.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

using WireId = uint64_t;

class PeerWire final : private net::Connection::Handler {
 public:
  // Called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    // `bytes`: of the frame.
    virtual void OnPeerMessage(WireId wire, const pathways::v1::PeerMessage& message, Bytes payload, size_t bytes) = 0;
    // Called when CanSendBulk has returned false and there is room again.
    virtual void OnPeerWritable(WireId wire) = 0;
    virtual void OnPeerClosed(WireId wire, const absl::Status& reason) = 0;
  };

  // All outlive this. `places`: of expected chunks; null: no chunks come this way.
  PeerWire(WireId id, std::unique_ptr<net::Connection> connection, const WorkerContext* context, Owner* owner,
           net::ReceiveBuffers* places);

  // Begins delivery.
  void Start() { connection_->Start(this); }
  // From now on, pings are answered with the counts of this link, and chunks are received in place. The link must outlive this.
  void Open(const net::ResumableLink* link);
  // Sends a message beside the link. On the bulk lane it stays in order with the link's frames.
  void Send(pathways::v1::PeerMessage message, net::Lane lane);
  void Close(const absl::Status& reason) { connection_->Close(reason); }

  WireId id() const { return id_; }
  net::Connection* connection() { return connection_.get(); }
  // Returns when the last frame has arrived; at first, when this was made.
  absl::Time last_heard() const { return absl::FromUnixNanos(last_heard_.load()); }

 private:
  void OnFrame(net::Frame frame) override;
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override;
  void OnBulkWritable() override;
  void OnClosed(const absl::Status& reason) override;
  void Answer();
  template <class F>
  void Post(F f);

  const WireId id_;
  Owner* const owner_;
  net::ReceiveBuffers* const places_;
  Executor* const strand_;
  Clock* const clock_;
  const std::weak_ptr<bool> alive_;                        // of the worker
  std::atomic<const net::ResumableLink*> link_ = nullptr;  // set by Open
  std::atomic<int64_t> last_heard_;                        // in nanoseconds: an atomic absl::Time would need libatomic
  // Last: closed before the other members are destroyed.
  const std::unique_ptr<net::Connection> connection_;
};

}  // namespace pw::worker
