// SessionService: accepts client connections at the controller. Opens sessions and reconnects clients to them after a connection breaks.
//
// Sessions of the controller before. Its client shows the key, which this controller can derive, and sends what it has in parts. The service
// collects them, and opens the session when it has them all. So a connection that breaks meanwhile changes nothing.
//
// A connection begins with a hello, for a new or an existing session. A session without a connection waits for its client for the
// time that absence.h tells, then ends. A goodbye ends it at once. A second connection for a session replaces the first, which
// may be dead unnoticed.
//
// Invariants:
//   SS-1  only a client that has shown a session's key can resume it
//   SS-2  a protocol violation ends the session that it came from, with a status, and affects nothing else
//   SS-3  a client that has not been admitted has kGreetingTime for its hello, in frames of at most kStrangerBytes. At most
//         Strangers::kMost such links exist at a time: one more drops the oldest
//   SS-4  when a token is revoked, the sessions that were opened with it end
//   SS-5  a user who is no operator has at most kMostOfOne sessions at a time, with those that are being opened and those of tools
//   SS-6  after Leave no session ends before Stop: hosts keep what it has
// Everything runs on the cluster's strand. Transport, timers and cluster must outlive the service.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/net/strangers.h"
#include "pathways/net/transport.h"
#include "pathways/session/frame_link.h"
#include "pathways/session/program_store.h"
#include "pathways/session/served_session.h"
#include "pathways/session/session.h"

namespace pw::session {

class SessionService final : private FrameLink<::pathways::v1::ClientFrame>::Owner,
                             public std::enable_shared_from_this<SessionService> {
 public:
  struct Options {
    absl::Duration grace = absl::ZeroDuration();    // the longest wait for a client whose connection broke
    absl::AnyInvocable<std::string()> make_key;     // returns a new unguessable secret at each call
    bool end_on_hang = false;                       // any session, when one of its computations hangs
    identity::ClusterIdentity* identity = nullptr;  // admits clients; null: this user's processes, all where TLS is off
    uint64_t epoch = 0;               // of this controller (identity/epochs.h); 0: none
    absl::Duration controller_grace;  // how long hosts keep sessions without a controller
    // Returns the key of a session that the controller with this epoch has opened for this user: every controller of the cluster returns the same
    // one, and nobody else can. Null: no controller can restore a session of another one.
    std::function<std::string(uint64_t epoch, uint64_t session, const std::string& user)> session_key = nullptr;
  };
  struct Environment {
    Cluster* cluster;
    Timers* timers;
  };

  static constexpr size_t kMostOfOne = 1024;
  static constexpr absl::Duration kLongestPause = absl::Seconds(5);
  static constexpr absl::Duration kPauseInVain = absl::Seconds(1);  // without a request that was settled

  static std::shared_ptr<SessionService> Create(Options options, const Environment& environment);
  ~SessionService() override;

  // Starts to listen. Returns the address with the actual port.
  absl::StatusOr<std::string> Listen(net::Transport* transport, const std::string& address);

  // Hears that a computation of a session hangs, as `text` says. The session ends, and its client gets the text as DEADLINE_EXCEEDED, if the client has
  // asked for that, or the options say so. On the strand.
  void OnHang(SessionId session, const std::string& text);
  // Ends all sessions with this status and closes all connections. On the strand; the last call.
  void Stop(const absl::Status& status);
  // Returns whether another controller can go on with sessions of this one.
  bool restores() const { return options_.epoch != 0 && options_.session_key != nullptr && options_.controller_grace > absl::ZeroDuration(); }
  // The two steps in which a controller leaves its sessions to the next one. REQUIRES: restores(). On the strand.
  // Carries out no further request, tells clients that the controller stops, for this reason, and waits for the requests under way. Calls `quiet` when all are
  // settled and their clients know it, or nothing more can be waited for: at the latest after kLongestPause.
  void Pause(const std::string& reason, absl::AnyInvocable<void() &&> quiet);
  // Closes all connections, and keeps the sessions: call Stop when hosts cannot hear of their end any more.
  void Leave(const std::string& reason);

  size_t num_sessions() const { return sessions_.size(); }
  size_t num_links() const { return links_.size(); }

 private:
  using Link = FrameLink<::pathways::v1::ClientFrame>;
  struct Entry {
    std::shared_ptr<ServedSession> served;
    identity::Caller caller;
    std::string key;
    std::string former_key;     // of a session of the controller before: until its client has the new key
    bool restoring = false;     // it has not got its Welcome from this controller
    bool observer = false;  // not waited for
    bool ends_on_hang = false;
    LinkId link = 0;          // 0: no connection
    std::string client_end;   // of the connection, as the client's machine names it
    uint64_t told = 0;        // the last request acknowledged to the client
    size_t untold_bytes = 0;  // of frames that came since
    bool flush_posted = false;
    uint64_t absence = 0;  // number of times that its connection has broken
  };
  struct Restored {
    identity::Caller caller;
    ::pathways::v1::SessionHello hello;
    bool own_user = false;
    std::vector<ServedSession::RestorePart> parts = {};
    size_t bytes = 0;
  };
  struct Forgotten {  // a session that ended because its client did not come back
    uint64_t session = 0;
    std::string key;
    absl::Duration kept;
  };

  SessionService(Options options, const Environment& environment);
  void AddConnection(std::unique_ptr<net::Connection> connection);
  void OnFrame(LinkId link, ::pathways::v1::ClientFrame frame, std::vector<Bytes> payloads, size_t bytes) override;
  void OnLinkClosed(LinkId link, const absl::Status& reason) override;
  void OnHello(LinkId link, const ::pathways::v1::SessionHello& hello);
  void Open(LinkId link, const identity::Caller& caller, const ::pathways::v1::SessionHello& hello);
  void OnOpened(LinkId link, const identity::Caller& caller, std::shared_ptr<Session> session,
                const ::pathways::v1::SessionHello& hello);
  size_t SessionsOf(const std::string& user) const;
  ServedSession::Owner OwnerOf(uint64_t session);
  // -- sessions that are left to the next controller (service_leave.cc)
  struct Pausing {
    int64_t looks = 0, looks_in_vain = 0;  // that are left
    size_t unsettled = SIZE_MAX;           // at the last one
    absl::AnyInvocable<void() &&> quiet;
  };
  void AwaitQuiet(std::shared_ptr<Pausing> pausing);
  size_t Unsettled();
  void TakeAcknowledgement(uint64_t session, const ::pathways::v1::ClientFrame& frame);
  absl::Status Stopping() const;
  // -- sessions of the controller before (service_restore.cc)
  absl::Status BeginRestore(LinkId link, const identity::Caller& caller, const ::pathways::v1::SessionHello& hello);
  Entry& AddEntry(LinkId link, const identity::Caller& caller, std::shared_ptr<Session> session,
                  const ::pathways::v1::SessionHello& hello, bool own_user);
  absl::Status TakeRestore(LinkId link, ::pathways::v1::ClientFrame& frame, std::vector<Bytes> payloads, size_t bytes);
  void OpenRestored(LinkId link, Restored restored);
  void OnReopened(LinkId link, Restored restored, std::shared_ptr<Session> session);
  void OnRestored(uint64_t session, const absl::Status& status);
  absl::Status CheckFormer(const identity::Caller& caller, const ::pathways::v1::SessionHello& hello) const;
  void WelcomeBack(Entry& entry, uint64_t session);
  void DescribeLife(const net::Connection& connection, const Entry& entry, ::pathways::v1::SessionWelcome* welcome) const;
  absl::Status Resume(LinkId link, const identity::Caller& caller, const ::pathways::v1::SessionHello& hello);
  void Watch(LinkId link);  // a stranger's
  void Trust(LinkId link);
  absl::StatusOr<identity::Caller> CallerOf(LinkId link, const ::pathways::v1::SessionHello& hello);
  absl::StatusOr<std::string> AnswerTokens(const ::pathways::v1::TokenQuestion& question);
  absl::StatusOr<std::string> AnswerQuotas(uint64_t session, const ::pathways::v1::QuotaQuestion& question);
  void Tell(LinkId link, const std::string& line);
  void OnRevoked(const std::string& token_id);
  absl::Status OnBatch(Entry& entry, ::pathways::v1::ClientFrame& frame, std::vector<Bytes> payloads);
  void Refuse(LinkId link, const absl::Status& status);
  void Detach(uint64_t session, absl::Duration kept);
  void Forget(uint64_t session, absl::Duration kept);
  absl::Status NotThere(const ::pathways::v1::SessionHello& hello) const;
  void End(uint64_t session, const absl::Status& status);
  void PostFlush(uint64_t session);
  void Flush(uint64_t session);
  Link::PostToOwner PostToThis();

  Options options_;
  const Environment environment_;
  ProgramStore programs_;  // of all sessions
  LinkId next_link_ = 1;
  std::map<LinkId, std::unique_ptr<Link>> links_;
  std::map<LinkId, uint64_t> session_of_;  // links that have been welcomed
  struct Opening {
    std::string token_id, user;
    std::shared_ptr<bool> client = std::make_shared<bool>(true);  // NewSession::client
  };
  std::map<LinkId, Opening> opening_;  // links whose new session is being opened, or waits for a quota
  std::set<uint64_t> reopening_;          // sessions of the controller before that are being opened
  std::map<LinkId, Restored> restoring_;  // links whose clients send what their sessions have
  net::Strangers<LinkId> strangers_;
  std::map<uint64_t, Entry> sessions_;
  std::deque<Forgotten> forgotten_;  // the oldest first, at most kMostForgotten
  std::string pausing_;              // why; empty: it does not
  bool left_ = false;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

}  // namespace pw::session
