// Links: the way from this host's runtime to those of other hosts. TransportLinks (transport_links.h) makes connections of its
// own; others carry the frames inside a stream that exists already.
//
// Invariants:
//   LK-1  frames of one lane to one host arrive in order, each once, or the peer is lost, or the way to it has broken
//   LK-2  a lost peer is lost for good: OnPeerLost comes once, no frame of it comes afterwards, and what is sent to it is dropped
//   LK-3  when the way between two hosts breaks, both hear OnPeerBroken, after the last frame that came before and before the first that
//         comes after; what was on its way may be gone
// Strand-confined: every method of both sides is called on the runtime's strand, and never from inside another.
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
  // Delivery begins. `handler` outlives this object's last call. Once.
  virtual void Start(Handler* handler) = 0;
  virtual void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) = 0;
  // The peer has broken the rules: it is lost from now on. OnPeerLost follows.
  virtual void Disconnect(HostId host, const absl::Status& why) = 0;
};

}  // namespace pw::dataflow
