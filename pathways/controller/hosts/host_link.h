// HostLink: a connection to the controller's address for workers: from a worker, from a worker's device runtime (world.proto), or from
// an operator. It decodes frames on the transport's threads and passes the messages to its owner on the controller's strand, in order.
//
// Invariants:
//   HL-1  the owner gets OnLinkClosed once, as the last call. A frame without a valid message closes the link
//   HL-2  the payload of a frame is split exactly as its messages say, or the link closes
//   HL-3  until Trust is called, a frame of more than kStrangerBytes closes the link before memory is taken for it. Afterwards, on a
//         device runtime's link, a frame of more than kRuntimeBytes does
//   HL-4  until Trust is called, kStrangerFrames frames come at most, of one event each: small events would take many times their bytes
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/transport.h"
#include "pathways/v1/admin.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/v1/world.pb.h"

namespace pw::controller {

using LinkId = uint64_t;

// The largest frame that a peer may send before it is let in: a worker's hello, which describes its devices.
inline constexpr size_t kStrangerBytes = 256 << 10;
// The frames that it may send: a hello, and answers to pings that crossed it.
inline constexpr int kStrangerFrames = 4;
// The largest frame of a device runtime: a key and a value (worlds/key_value_store.h).
inline constexpr size_t kRuntimeBytes = 16 << 20;

class HostLink final : public net::Connection::Handler {
 public:
  // All methods are called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    // `bytes`: the size of the frame.
    virtual void OnWorkerMessage(LinkId link, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads, size_t bytes) = 0;
    virtual void OnAdminRequest(LinkId link, ::pathways::v1::AdminRequest request) = 0;
    virtual void OnRuntimeMessage(LinkId link, ::pathways::v1::FromRuntime message) = 0;
    virtual void OnLinkWritable(LinkId link) = 0;
    virtual void OnLinkClosed(LinkId link, const absl::Status& reason) = 0;
  };
  // Runs a function with the owner on its strand, or drops it if the owner is gone. Any thread.
  using PostToOwner = std::function<void(absl::AnyInvocable<void(Owner&) &&>)>;

  HostLink(LinkId id, std::unique_ptr<net::Connection> connection, PostToOwner post);

  // Begins delivery.
  void Start() { connection_->Start(this); }
  net::Connection* connection() const { return connection_.get(); }
  // Lets the peer in: it may send large frames from now on, with payloads unless it is a device runtime.
  void Trust() { most_bytes_.store(kUnlimited, std::memory_order_release); }
  void TrustRuntime() { most_bytes_.store(kRuntimeBytes, std::memory_order_release); }

 private:
  void OnFrame(net::Frame frame) override;
  void OnClosed(const absl::Status& reason) override;
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override;
  void OnBulkWritable() override;
  // Returns for each event its part of the payload. INTERNAL if the sizes do not add up.
  static absl::StatusOr<std::vector<Bytes>> Split(const ::pathways::v1::FromWorker& message, const Bytes& payload);

  static constexpr size_t kUnlimited = static_cast<size_t>(-1);
  bool is_stranger() const { return most_bytes_.load(std::memory_order_acquire) == kStrangerBytes; }

  const LinkId id_;
  const PostToOwner post_;
  std::atomic<size_t> most_bytes_ = kStrangerBytes;  // of a frame without payload
  bool first_frame_ = true;                          // on the transport's threads, which call one at a time; so is the next
  int stranger_frames_ = 0;
  const std::unique_ptr<net::Connection> connection_;  // last: closed before the rest goes
};

}  // namespace pw::controller
