// Links: the interface over which a runtime exchanges frames with the runtimes of other hosts. The controller and the workers carry
// the frames inside their own streams; testing/transport_links.h makes connections for tests and benchmarks.
//
// Invariants:
//   DL-1  frames of one lane to one host arrive in order, each once, unless the peer is lost or the link to it has broken
//   DL-2  a lost peer is lost for good: OnPeerLost comes once, no frame of it comes afterwards, and frames sent to it are dropped
//   DL-3  when the link between two hosts breaks for good, both get OnPeerBroken, after the last frame received before the break and before
//         the first one received after it. Frames in flight may be lost
// Strand-confined: every method of Links and of Handler is called on the runtime's strand, and never from inside another.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/net/transport.h"

namespace pw::dataflow {

class Links {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    virtual void OnFrame(HostId from, net::Frame frame) = 0;
    virtual void OnPeerLost(HostId host, const absl::Status& reason) = 0;
    virtual void OnPeerBroken(HostId host, const absl::Status& reason) = 0;
  };

  virtual ~Links() = default;
  // Begins delivery to `handler`, which outlives this object's last call. Called once.
  virtual void Start(Handler* handler) = 0;
  virtual void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) = 0;
  // Disconnects a peer that has broken the rules. The peer is lost from now on; OnPeerLost follows.
  virtual void Disconnect(HostId host, const absl::Status& why) = 0;
};

}  // namespace pw::dataflow
