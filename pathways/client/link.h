// Link: a client's end of the session protocol. It connects to the controller, reconnects when the connection breaks, sends requests in
// batches, and delivers each event once, in order. RemoteSession owns it.
//
// Requests of one turn of the strand leave together. They wait here while there is no connection, and while the controller has not carried
// out those before them (kRequestWindowBytes).
//
// Invariants:
//   LK-1  the owner hears OnWelcome once, before any event, or it hears OnEnded
//   LK-2  the owner hears OnEnded at most once, last: the controller has ended the session, could not be reached for `patience`, or has
//         broken the protocol
// Strand-confined; the transport calls on its own threads. Environment and owner must outlive the link.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/clock.h"
#include "pathways/base/strand.h"
#include "pathways/base/timer_queue.h"
#include "pathways/net/resumable_stream.h"
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
  };
  struct Options {
    std::string controller;                         // its address
    std::string description;                        // of this client, for people
    std::string token = {};                         // who the client is; empty: it is let in without
    absl::Duration patience = absl::Seconds(30);    // how long the controller may be out of reach before the session is open
    absl::Duration absence = absl::Seconds(30);     // and afterwards; zero: a broken connection ends the session
    bool retry = true;                              // false: `patience` is for one attempt
    std::string remedy;                             // advice for people, at the end of the error of a lost session
    ::pathways::v1::SessionHello hello;             // further settings of a new session
  };
  struct Environment {
    net::Transport* transport;
    Strand* strand;
    Timers* timers;
    Clock* clock;
  };

  static std::shared_ptr<Link> Create(Options options, const Environment& environment, Owner* owner);
  void Open();
  // Returns the request's number; 0 after the end.
  uint64_t Send(::pathways::v1::SessionRequest request, std::vector<Bytes> payload = {});
  // Says goodbye. The owner hears nothing any more.
  void Close();

  uint64_t session() const { return session_; }
  size_t kept_bytes() const { return stream_.kept_bytes(); }  // of requests that are not acknowledged
  uint64_t frames_sent() const { return sent(&net::Counters::frames_sent); }  // on all connections so far
  uint64_t bytes_sent() const { return sent(&net::Counters::bytes_sent); }
  // Breaks the connection, as if the network had failed: for tests.
  void Break();

 private:
  using Connection = session::FrameLink<::pathways::v1::ControllerFrame>;

  Link(Options options, const Environment& environment, Owner* owner);
  void Connect();
  absl::Duration patience() const { return session_ == 0 ? options_.patience : options_.absence; }
  // Returns the status of a session whose connection is lost.
  absl::Status Lost(absl::string_view reason) const;
  // Returns the controller's reason for the end, worded for people.
  absl::Status Explained(const absl::Status& end) const;
  // An attempt to open the session has failed: tries again, or ends.
  void OnUnreachable(const absl::Status& reason);
  void OnConnected(absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void OnFrame(session::LinkId link, ::pathways::v1::ControllerFrame frame, std::vector<Bytes> payloads, size_t bytes) override;
  void OnLinkClosed(session::LinkId link, const absl::Status& reason) override;
  absl::Status Take(::pathways::v1::ControllerFrame& frame, std::vector<Bytes> payloads, size_t bytes);
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
  std::unique_ptr<Connection> connection_;
  session::LinkId next_link_ = 1;
  bool welcomed_ = false;       // on this connection: requests may be sent
  bool flush_posted_ = false;
  uint64_t told_ = 0;           // the last event that was acknowledged
  size_t untold_bytes_ = 0;     // of frames that came since
  net::Counters earlier_;       // sums over earlier connections
  absl::Time unreachable_since_;
};

}  // namespace pw::client
