// LaneEnd: one end of a lane (proto/pathways/v1/lane.proto), a client's or a worker's. Parses messages on the transport's threads, has their
// payloads written to where the receiver wants them, and hands both to its owner's strand, in order.
//
// Invariants:
//   LN-1  the owner hears OnLaneClosed once, last
//   LN-2  before Open no payload is taken, and no header above kStrangerHeaderBytes; after it none above kHeaderBytes and kPartBytes
//   LN-3  what does not parse closes the lane with a reason that says so
// Strand-confined but for what the transport calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "pathways/base/bytes.h"
#include "pathways/net/landings.h"
#include "pathways/net/transport.h"
#include "pathways/v1/lane.pb.h"

namespace pw::lanes {

using LaneId = uint64_t;

inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kStrangerHeaderBytes = 4 << 10;
inline constexpr size_t kHeaderBytes = 1 << 20;
inline constexpr size_t kPartBytes = 1 << 20;  // of one message

class LaneEnd final : public net::Connection::Handler {
 public:
  // Called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnLaneMessage(LaneId lane, ::pathways::v1::LaneMessage message, Bytes payload) = 0;
    virtual void OnLaneWritable(LaneId lane) = 0;
    virtual void OnLaneClosed(LaneId lane, const absl::Status& reason) = 0;
  };
  // Runs a function with the owner on its strand, or drops it if the owner is gone. Any thread.
  using PostToOwner = std::function<void(absl::AnyInvocable<void(Owner&) &&>)>;

  LaneEnd(LaneId id, std::unique_ptr<net::Connection> connection, PostToOwner post)
      : id_(id), post_(std::move(post)), connection_(std::move(connection)) {}

  // Delivery begins.
  void Start() { connection_->Start(this); }
  // The other end is who it says: its payloads are taken, and go where `landings` says. Once.
  void Open(std::shared_ptr<net::Landings> landings);
  void Send(const ::pathways::v1::LaneMessage& message, Bytes payload = Bytes());
  bool CanSend() const { return connection_->CanSendBulk(); }
  void Close(const absl::Status& reason) { connection_->Close(reason); }
  LaneId id() const { return id_; }

 private:
  void OnFrame(net::Frame frame) override;
  void OnClosed(const absl::Status& reason) override;
  void OnBulkWritable() override;
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override;
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override;

  const LaneId id_;
  const PostToOwner post_;
  std::shared_ptr<net::Landings> landings_;  // written before open_ is set
  std::atomic<bool> open_ = false;
  const std::unique_ptr<net::Connection> connection_;  // last: closed before the rest goes
};

// The name of the bytes, a client's buffer or a fetch; 0 names nothing.
inline uint64_t NameOf(const ::pathways::v1::LaneBytes& bytes) { return bytes.has_buffer() ? bytes.buffer() : bytes.fetch(); }

}  // namespace pw::lanes
