// Transport: ordered streams of frames between our own processes.
//
// A frame is a header (a small serialized message) and a payload (raw bytes, possibly large). A connection is full duplex and has
// two lanes, each ordered: urgent frames overtake queued bulk frames. Implementations: AsioTransport (TCP and Unix sockets) and
// MemoryTransport (in one process, for local clusters, tests and the simulator).
//
// Addresses: "tcp:HOST:PORT" ("HOST:PORT" means the same; port 0 listens on a free port) and "unix:PATH" ("unix:@NAME" is in the
// abstract namespace).
//
// Invariants:
//   TR-1  frames of one lane arrive in the order of Send, each exactly once, or the connection closes
//   TR-2  a handler's methods are called one at a time, on a thread of the transport; they must not block
//   TR-3  OnClosed is the last call and comes exactly once, also after Close(); after it the connection may be destroyed
//   TR-4  no input can crash or exhaust the process: header and payload sizes are checked against limits before memory is allocated
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
#include "pathways/base/memory/bytes.h"

namespace pw::net {

enum class Lane { kUrgent, kBulk };

struct Frame {
  std::string header;
  Bytes payload;  // in 64-byte aligned memory of its own, or in the memory that PlaceFor returned
};

// The destination memory of a payload; none if `data` is null.
struct Place {
  std::shared_ptr<const void> owner;
  uint8_t* data = nullptr;
};

// Frames and bytes that a connection has carried, for tests and for `status`.
struct Counters {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t frames_received = 0;
  uint64_t bytes_received = 0;
};

// The identity that a peer has proven to the transport before it sends a frame.
enum class PeerProof {
  kOwn,         // it is this process, or another process of this machine that runs as the same user or as root
  kOpen,        // nothing, over a network: TLS is turned off
  kStranger,    // nothing, but the connection is encrypted
  kController,  // it has a certificate of the cluster's controller
  kWorker,      // it has a certificate of one of the cluster's workers
};

// FrameSink: takes frames to be sent to another process.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Queues one frame. Its payload is the concatenation of the pieces, which are not copied. Never blocks.
  virtual void Send(std::string header, std::vector<Bytes> payload, Lane lane) = 0;
  void Send(std::string header, Lane lane = Lane::kUrgent) { Send(std::move(header), {}, lane); }
  // Returns false while more than the high-water mark waits on the bulk lane. A producer then waits until it is told of room.
  virtual bool CanSendBulk() const = 0;
};

class Connection : public FrameSink {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(Frame frame) = 0;
    virtual void OnClosed(const absl::Status& reason) = 0;
    // Called when the lengths of a frame have arrived, before memory is allocated for it. An error closes the connection.
    // Handlers whose peer is not authenticated yet use it to refuse large frames.
    virtual absl::Status Admit(size_t header_bytes, size_t payload_bytes) { return absl::OkStatus(); }
    // Called when a frame's header has arrived and its payload has not. Returns the memory for the payload, or none. A transport that
    // already holds the payload does not call it.
    virtual Place PlaceFor(const std::string& header, size_t payload_bytes) { return {}; }
    // Called when CanSendBulk() has returned false and the bulk lane has drained below its low-water mark.
    virtual void OnBulkWritable() {}
  };

  // The destructor closes; after it returns no handler method runs. Send may be called on any thread; after Close it drops the
  // frame. After CanSendBulk has returned false, OnBulkWritable reports room.

  // Begins delivery. Called once. `handler` must outlive the connection.
  virtual void Start(Handler* handler) = 0;
  // Sends the queued urgent frames as far as that does not block, then closes. Any thread.
  virtual void Close(absl::Status reason) = 0;
  virtual Counters counters() const = 0;
  // Returns the peer's name for messages, such as "tcp:127.0.0.1:41234".
  virtual const std::string& peer() const = 0;
  virtual PeerProof proof() const = 0;
  // Returns whether the network can break it. A Unix socket ends only when the process at the other end closes it, or ends.
  virtual bool breakable() const { return true; }
  // Returns this end's name, which is peer() at the other end unless a proxy is between them. Empty: not known.
  virtual std::string own_end() const { return ""; }
};

// Returns whether OnClosed's reason says that the other end, or a proxy in its place, closed the connection. Otherwise this end
// closed it, or the network had fallen silent.
bool ClosedByPeer(const absl::Status& reason);
absl::Status MarkedClosedByPeer(absl::Status reason);
// Returns whether Connect failed because the machine answered that no process listens there.
bool NobodyListens(const absl::Status& failure);
absl::Status MarkedNobodyListens(absl::Status failure);

// Returns an error if the connected process has not proven to be `wanted` (kController or kWorker) where TLS applies.
absl::Status CheckServer(const Connection& connection, PeerProof wanted);

class Listener {
 public:
  virtual ~Listener() = default;  // stops accepting; accepted connections live on
  // Returns the address with the real port.
  virtual const std::string& address() const = 0;
};

struct Limits {
  size_t max_header_bytes = 16u << 20;
  size_t max_payload_bytes = 1u << 30;
  size_t bulk_high_water_bytes = 16u << 20;
};

class FileListener;
class FileSocket;

class Transport {
 public:
  using AcceptCallback = std::function<void(std::unique_ptr<Connection>)>;
  using ConnectCallback = std::function<void(absl::StatusOr<std::unique_ptr<Connection>>)>;

  virtual ~Transport() = default;
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, AcceptCallback on_accept) = 0;
  // Connects within `timeout`. Refused connections are retried, so a peer that is still starting is found.
  virtual void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) = 0;
  // Make sockets that pass open files to processes of the same machine (file_socket.h). UNIMPLEMENTED: this transport has none.
  virtual absl::StatusOr<std::unique_ptr<FileListener>> ListenForFiles();
  virtual absl::StatusOr<std::unique_ptr<FileSocket>> ConnectForFiles(const std::string& address, const std::string& key);
};

}  // namespace pw::net
