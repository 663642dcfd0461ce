// Transport: ordered streams of frames between our own processes.
//
// A frame is a header (a small serialized message) and a payload (raw bytes, possibly large). A connection is full duplex and has
// two lanes with one order each: frames on the urgent lane overtake frames that wait on the bulk lane. Implementations:
// AsioTransport (TCP and Unix sockets) and MemoryTransport (in one process, for tests and the simulator).
//
// Addresses: "tcp:HOST:PORT" ("HOST:PORT" means the same; port 0 listens on a free one) and "unix:PATH" ("unix:@NAME" is
// abstract).
//
// Invariants:
//   TR-1  frames of one lane arrive in the order of Send, each exactly once, or the connection closes
//   TR-2  a handler's methods are called one at a time, from a thread of the transport: they must not block
//   TR-3  OnClosed is the last call and comes exactly once, also after Close(); then the connection may be destroyed
//   TR-4  no input can crash or exhaust us: limits on header and payload sizes are checked before memory is taken
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/bytes.h"

namespace pw::net {

enum class Lane { kUrgent, kBulk };

struct Frame {
  std::string header;
  Bytes payload;  // in 64-byte aligned memory of its own, or where the handler wanted it
};

// Room for a payload; none if `data` is null.
struct Place {
  std::shared_ptr<const void> owner;
  uint8_t* data = nullptr;
  int file = -1;  // that `data` is a mapping of, from its beginning, and that has no pages yet: for Landings
};

// What a connection has carried, for tests that count and for `status`.
struct Counters {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t frames_received = 0;
  uint64_t bytes_received = 0;
};

class Connection {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(Frame frame) = 0;
    virtual void OnClosed(const absl::Status& reason) = 0;
    // The lengths of a frame have arrived, and no memory has been taken for it. An error closes the connection: for those who do not know
    // yet with whom they speak.
    virtual absl::Status Admit(size_t header_bytes, size_t payload_bytes) { return absl::OkStatus(); }
    // The header of a frame has arrived, its payload has not: where that is to lie. A transport that has the payload already does not ask.
    virtual Place PlaceFor(const std::string& header, size_t payload_bytes) { return {}; }
    // The bulk queue has drained below its low-water mark after CanSendBulk() returned false.
    virtual void OnBulkWritable() {}
  };

  virtual ~Connection() = default;  // closes; after it returns no handler method runs

  // Delivery begins. `handler` must outlive the connection. Once.
  virtual void Start(Handler* handler) = 0;
  // Queues one frame; its payload is the pieces one after another, which are not copied. Any thread, never blocks. After close:
  // dropped.
  virtual void Send(std::string header, std::vector<Bytes> payload, Lane lane) = 0;
  void Send(std::string header, Lane lane = Lane::kUrgent) { Send(std::move(header), {}, lane); }
  // False while more than the high-water mark waits on the bulk lane: a good producer stops until OnBulkWritable.
  virtual bool CanSendBulk() const = 0;
  // Sends what is queued on the urgent lane if that takes no time, then closes. Any thread.
  virtual void Close(absl::Status reason) = 0;
  virtual Counters counters() const = 0;
  // "tcp:127.0.0.1:41234": for messages.
  virtual const std::string& peer() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;  // stops accepting; accepted connections live on
  // The address with the real port.
  virtual const std::string& address() const = 0;
};

struct Limits {
  size_t max_header_bytes = 16u << 20;
  size_t max_payload_bytes = 1u << 30;
  size_t bulk_high_water_bytes = 16u << 20;
};

class Transport {
 public:
  using AcceptCallback = std::function<void(std::unique_ptr<Connection>)>;
  using ConnectCallback = std::function<void(absl::StatusOr<std::unique_ptr<Connection>>)>;

  virtual ~Transport() = default;
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, AcceptCallback on_accept) = 0;
  // Tries until `timeout`; refused connections are retried, so a peer that is still starting is found.
  virtual void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) = 0;
};

}  // namespace pw::net
