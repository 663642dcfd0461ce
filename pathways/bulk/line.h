// Line: one end of a connection that carries large host buffers between a client's relay and a controller on another machine
// (proto/pathways/v1/bulk.proto). gRPC would copy them more often than the network takes to carry them; here the socket reads from where an
// array lies and writes to where it belongs.
//
// Invariants:
//   LI-1  a byte lands where Expect said, in order and once; what nobody expects is dropped
//   LI-2  what is sent of one call arrives in the order in which it was sent, so that the end of a call comes after its data
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/net/landings.h"
#include "pathways/net/transport.h"
#include "pathways/v1/bulk.pb.h"

namespace pw::bulk {

// For the transport of lines: nobody may make the other side take much memory.
net::Limits LineLimits();

class Line final : private net::Connection::Handler {
 public:
  // Called one at a time, from a thread of the transport: it must not block, and must not destroy the line.
  class Owner {
   public:
    virtual ~Owner() = default;
    // All frames but parts.
    virtual void OnBulkFrame(pathways::v1::BulkFrame frame) = 0;
    // The last call.
    virtual void OnBulkClosed(const absl::Status& reason) = 0;
  };

  // `owner` outlives the line.
  Line(std::unique_ptr<net::Connection> connection, Owner* owner) : owner_(owner), connection_(std::move(connection)) {}
  void Start() { connection_->Start(this); }

  void Send(const pathways::v1::BulkFrame& frame);
  void SendDone(uint64_t call, const absl::Status& status);
  // What the buffer holds from `offset` on, or some of that.
  void SendParts(uint64_t call, const Bytes& data, uint64_t offset = 0);
  // False: enough is waiting to be sent. For who makes what he sends as he goes.
  bool CanSend() const { return connection_->CanSendBulk(); }

  // Where the parts of a call shall land.
  void Expect(uint64_t call, net::Place place, size_t size) { landings_.Expect(call, std::move(place), size); }
  // The call has ended: OK if all `size` bytes have landed.
  absl::Status Landed(uint64_t call, size_t size);

  void Close(absl::Status reason) { connection_->Close(std::move(reason)); }
  // What it has carried, and between whom: for logs.
  std::string Describe() const;

 private:
  void OnFrame(net::Frame frame) override;
  void OnClosed(const absl::Status& reason) override { owner_->OnBulkClosed(reason); }
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override;

  Owner* const owner_;
  net::Landings landings_;  // outlives the connection
  const std::unique_ptr<net::Connection> connection_;
};

absl::Status StatusOf(const pathways::v1::BulkFrame::Done& done);

}  // namespace pw::bulk
