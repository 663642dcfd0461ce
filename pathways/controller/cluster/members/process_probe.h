// ProcessProbe: finds out whether the process of a host without a connection has ended. A killed process looks the same at first as
// one behind a broken network, so the probe connects to the host's address for other workers, again and again. If the machine
// answers that no process listens there, the process has ended. Every other outcome says nothing.
//
// Invariant PB-1: an attempt and its answer count only while the asker still wants to know; `ended` is called at most once.
// Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "pathways/controller/cluster/context/cluster_context.h"
#include "pathways/net/transport.h"

namespace pw::controller {

class ProcessProbe {
 public:
  using Wanted = std::function<bool()>;
  using Ended = std::function<void()>;

  explicit ProcessProbe(ClusterContext context) : context_(std::move(context)) {}

  // Sets the transport on which it connects. Call it before Watch.
  void set_transport(net::Transport* transport) { transport_ = transport; }
  // Watches the process that listens at this address while `wanted`. Empty: it has none, and nothing is watched.
  void Watch(const std::string& address, Wanted wanted, Ended ended);

 private:
  struct Watched {
    std::string address;
    Wanted wanted;
    Ended ended;
  };
  void Try(std::shared_ptr<const Watched> watched);
  void OnTried(std::shared_ptr<const Watched> watched, const absl::Status& connected);

  const ClusterContext context_;
  net::Transport* transport_ = nullptr;
};

}  // namespace pw::controller
