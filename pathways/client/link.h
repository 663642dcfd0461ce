// Link: a client's end of the session protocol. It connects to the controller, reconnects when the connection breaks, sends requests in
// batches, and delivers each event once, in order. RemoteSession owns it.
//
// Requests of one turn of the strand leave together. They wait here while there is no connection, and while the window of
// unacknowledged requests is full (kRequestWindowBytes).
//
// After a connection breaks, the link reconnects for as long as the controller keeps the session (SessionWelcome.grace_seconds).
// The controller counts as ended in two cases. The connection was a Unix socket; or for kRefusedFor the
// machine answers that no process listens there. Any other failure counts as the network's, also a stranger's certificate.
//
// Controllers that return. If the controller has ended, the link tries its address for as long as hosts keep the session's arrays
// (SessionWelcome.controller_grace_seconds). Another controller may want to restore the session; the owner then tells what it has
// (restore_parts.h). For this the link keeps the requests that are not settled (kept_requests.h). A session may have parts that
// cannot be restored: SetNotRestorable. It ends with its controller. A controller that stops in order says so (`stopping`): then the user hears of
// it at once, and a session that cannot be restored ends at once.
//
// Invariants:
//   LK-1  OnWelcome is called once, before any event, or OnEnded is called
//   LK-2  OnEnded is called at most once, and last: the controller has ended the session, was away for long, or broke a rule
// Strand-confined; the transport calls on its own threads. Environment and owner must outlive the link.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/client/kept_requests.h"
#include "pathways/client/restore_parts.h"
#include "pathways/identity/token_source.h"
#include "pathways/net/resumable/attempts.h"
#include "pathways/net/resumable/resumable_stream.h"
#include "pathways/net/transport.h"
#include "pathways/session/frame_link.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class Link final : private session::FrameLink<::pathways::v1::ControllerFrame>::Owner, public std::enable_shared_from_this<Link> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnWelcome(const ::pathways::v1::SessionWelcome& welcome) = 0;
    virtual void OnEvent(::pathways::v1::SessionEvent event, Bytes payload) = 0;
    virtual void OnEnded(const absl::Status& status) = 0;
    // The controller has acknowledged requests: kept_bytes() may have become less.
    virtual void OnAcknowledged() {}
    // Another controller asks for all that the session has.
    virtual std::vector<RestorePart> OnRestoreWanted() { return {}; }
    // Another controller has restored the session.
    virtual void OnRestored() {}
    // Returns why the session cannot be restored now; empty: it can.
    virtual std::string Obstacle() { return ""; }
  };
  struct Options {
    std::string controller;                       // its address
    std::string description;                      // of this client, for people
    identity::TokenSource token = {};             // identifies the client
    // How long the controller may be out of reach, or wait for its hosts, before the session is open.
    absl::Duration patience = absl::Seconds(30);
    bool retry = true;  // false: `patience` is for one attempt
    // Takes a line for the user when the connection has been lost for some seconds, or the session waits for a quota or for hosts.
    std::function<void(const std::string&)> say = {};
    std::string remedy;                  // advice for people, at the end of the error of a lost session
    ::pathways::v1::SessionHello hello;  // further settings of a new session
  };
  struct Environment {
    net::Transport* transport;
    Strand* strand;
    Timers* timers;
    Clock* clock;
  };

  static constexpr absl::Duration kRefusedFor = absl::Seconds(4);
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);  // for the answer to a hello that resumes
  static constexpr absl::Duration kQuietTime = absl::Seconds(3);    // without a connection, before the user hears of it

  static std::shared_ptr<Link> Create(Options options, const Environment& environment, Owner* owner);
  void Open();
  // Returns the request's number; 0 after the end.
  uint64_t Send(::pathways::v1::SessionRequest request, std::vector<Bytes> payload = {});
  // Says goodbye, and calls the owner no more. `closed` runs when the goodbye is sent, or cannot be.
  void Close(absl::AnyInvocable<void() &&> closed = nullptr);

  uint64_t session() const { return session_; }
  bool away() const { return session_ != 0 && !welcomed_; }                   // the session has no connection
  size_t kept_bytes() const { return stream_.kept_bytes(); }                  // of requests that are not acknowledged
  // The session has a part that no other controller can restore. The first one counts.
  void SetNotRestorable(const std::string& why);
  // Returns whether another controller may be able to restore the session.
  bool restorable() const { return controller_grace_ > absl::ZeroDuration() && not_restorable_.empty(); }
  // Returns the number of the last request that a controller may have begun to carry out.
  uint64_t last_begun() const { return stopping_.empty() ? stream_.last_appended() : stream_.acknowledged(); }
  KeptRequests& kept() { return kept_; }
  const net::ResumableStream& stream() const { return stream_; }
  uint64_t frames_sent() const { return sent(&net::Counters::frames_sent); }  // on all connections so far
  uint64_t bytes_sent() const { return sent(&net::Counters::bytes_sent); }
  // Breaks the connection, as if the network had failed: for tests.
  void Break();

 private:
  using Connection = session::FrameLink<::pathways::v1::ControllerFrame>;

  Link(Options options, const Environment& environment, Owner* owner);
  void Connect();
  // Leaves time to hear the controller say that the client was away for too long: its clock decides, not ours.
  absl::Duration patience() const {
    return session_ == 0 ? options_.patience : std::max(grace_, restorable() ? controller_grace_ : absl::ZeroDuration()) + kAnswerTime;
  }
  // Reconnects after the session's connection is lost.
  void OnLost(const absl::Status& reason);
  void SayLost(const absl::Status& reason) const;
  // Ends a connection whose hello is not answered.
  void AwaitAnswer();
  // Returns the status of a session whose connection is lost for good.
  absl::Status Lost(absl::string_view reason) const;
  // Returns the controller's reason for the end, worded for people.
  absl::Status Explained(const absl::Status& end) const;
  // Tries again, or ends, after an attempt to open or resume the session has failed.
  void OnUnreachable(const absl::Status& reason);
  // Tries again, or ends, when the controller serves no sessions yet.
  void OnNotReady(const absl::Status& why);
  void OnConnected(absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void OnFrame(session::LinkId link, ::pathways::v1::ControllerFrame frame, std::vector<Bytes> payloads, size_t bytes) override;
  void OnLinkClosed(session::LinkId link, const absl::Status& reason) override;
  absl::Status Take(::pathways::v1::ControllerFrame& frame, std::vector<Bytes> payloads, size_t bytes);
  absl::Status Keep(absl::FunctionRef<absl::Status(std::deque<net::ResumableStream::Message>*)> acknowledge);
  void TakeLife(const ::pathways::v1::SessionWelcome& welcome);
  absl::Status Restore();
  // The controller takes no more requests, and soon closes the connection.
  absl::Status TakeStopping(const ::pathways::v1::ControllerFrame& frame);
  bool may_return() const { return restorable() && owner_->Obstacle().empty(); }
  void TakeWelcomeBack(const ::pathways::v1::SessionWelcome& welcome);
  // Returns why the session ends with its controller.
  std::string WhyLost() const;
  absl::Status TakeWelcome(const ::pathways::v1::SessionWelcome& welcome);
  void PostFlush();
  void Flush();
  void End(const absl::Status& status);
  uint64_t sent(uint64_t net::Counters::* count) const;
  template <class F>
  void Post(F task);  // runs with this link, if it still exists

  const Options options_;
  const Environment environment_;
  Owner* owner_;  // null after the end
  net::ResumableStream stream_;
  uint64_t session_ = 0;
  std::string key_;
  absl::Duration grace_;  // how long the controller keeps the session without a connection
  uint64_t epoch_ = 0;    // of the controller
  absl::Duration controller_grace_;  // how long hosts keep the session without a controller
  std::string not_restorable_;       // why; empty: nothing prevents it
  KeptRequests kept_;
  bool waits_for_hosts_ = false;     // the controller has said to come again
  std::string stopping_;             // why the last controller has said that it stops; empty: it has not
  std::unique_ptr<Connection> connection_;
  session::LinkId next_link_ = 1;
  absl::AnyInvocable<void() &&> closed_;  // of Close
  bool welcomed_ = false;                 // on this connection: requests may be sent
  bool flush_posted_ = false;
  uint64_t told_ = 0;        // the last event that was acknowledged
  size_t untold_bytes_ = 0;  // of frames that came since
  net::Counters earlier_;    // sums over earlier connections
  absl::Status not_ready_;       // the controller's answer to the last hello; OK: it has not refused it
  bool said_not_ready_ = false;  // to the user
  absl::Time unreachable_since_;
  absl::Time attempt_began_;
  absl::Time refused_since_ = absl::InfiniteFuture();  // no process has listened there in any attempt since
  net::Attempts attempts_;
  uint64_t losses_ = 0;  // number of times that the connection was lost
};

}  // namespace pw::client
