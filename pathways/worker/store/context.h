// WorkerContext: the state that nearly every part of a worker uses, for the life of one controller. It has the strand, the clock, this host's
// id, the names of hosts, the recorder, the outbox, the names of commands that have come, and the sessions that have ended.
//
// Invariants:
//   WX-1  alive() expires with the worker, after its parts are gone
// Lives on the worker's strand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pathways/base/ids.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/transport.h"
#include "pathways/trace/recorder.h"
#include "pathways/worker/store/had_commands.h"
#include "pathways/worker/store/outbox.h"

namespace pw::worker {

class WorkerContext {
 public:
  // `self`: the controller's id for this host. `sink`: for frames to the controller. All outlive this.
  WorkerContext(Executor* strand, Clock* clock, net::FrameSink* sink, HostId self)
      : strand_(strand), clock_(clock), self_(self), recorder_(clock), outbox_(sink, &had_) {}
  WorkerContext(const WorkerContext&) = delete;

  Executor* strand() const { return strand_; }
  Clock* clock() const { return clock_; }
  HostId self() const { return self_; }
  trace::Recorder& recorder() { return recorder_; }
  Outbox& outbox() { return outbox_; }
  // Goes on with the names of the Worker before.
  void TakeHad(HadCommands had) { had_ = std::move(had); }
  HadCommands& had() { return had_; }
  const HadCommands& had() const { return had_; }
  // For callbacks that may come after the worker is gone: on the strand, they do nothing if this has expired.
  std::weak_ptr<bool> alive() const { return alive_; }

  // The controller's name for a host, for error messages: "host 'b0' of island 'b'". Names of hosts that have left are kept.
  std::string NameOf(HostId host) const {
    const auto it = names_.find(host);
    return it == names_.end() ? ToString(host) : it->second;
  }
  void SetName(HostId host, std::string name) { names_[host] = std::move(name); }

  // Returns whether the session was released. Messages that still arrive for it are dropped.
  bool ended(SessionId session) const { return had_.HasEnded(session); }
  void End(SessionId session) { had_.End(session); }

 private:
  Executor* const strand_;
  Clock* const clock_;
  const HostId self_;
  trace::Recorder recorder_;
  HadCommands had_;
  Outbox outbox_;
  std::map<HostId, std::string> names_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::worker
