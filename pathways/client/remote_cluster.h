// RemoteCluster: session::Cluster whose controller is elsewhere: what a front door beside the client stands on.
//
// Every session has a connection of its own (link.h), so that one client's bytes wait for nobody else's. What an operator asks goes over any
// session that is open, or over one that is opened for the question.
//
// Everything runs on the strand of the environment. This outlives the callbacks that it is given; sessions may outlive this.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "pathways/client/answers.h"
#include "pathways/client/link.h"
#include "pathways/client/remote_session.h"
#include "pathways/session/session.h"

namespace pw::client {

class RemoteCluster final : public session::Cluster {
 public:
  struct Options {
    std::string controller;                       // its address for sessions
    absl::Duration patience = absl::Seconds(30);  // how long it may be out of reach when a session is opened
    absl::Duration absence;                       // and later; then the session ends
    std::string remedy;                           // what a person can do about a session that is lost (link.h)
  };

  RemoteCluster(Options options, const Link::Environment& environment);

  // --- Cluster ---
  void Post(absl::AnyInvocable<void() &&> task) override { environment_.strand->Post(std::move(task)); }
  std::shared_ptr<const session::ClusterInfo> info() const override { return info_; }
  void OpenSession(session::NewSession session, session::ResultCallback<std::shared_ptr<session::Session>> done) override;
  void SetHostCallHandler(SessionId session, std::shared_ptr<session::HostCallHandler> handler) override;
  void ChangeShare(SessionId session, const gang::ShareChange& change, session::ResultCallback<gang::Share> done) override;
  std::shared_ptr<const session::SpareDevices> Spares(SessionId session) override;
  void AddSlice(SessionId session, const resource::SliceRequest& request, session::ResultCallback<session::SliceState> done) override;
  void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, session::ResultCallback<session::SliceState> done) override;
  void ReleaseSlice(SessionId session, SliceId slice, session::StatusCallback done) override;
  void SuspendClient(SessionId session, bool resume, session::ResultCallback<session::SuspendReport> done) override;
  void DrainHost(const std::string& host, bool undo, session::ResultCallback<session::DrainReport> done) override;
  void GetStatus(session::ResultCallback<std::string> done) override;
  void RecordTrace(absl::Duration duration, size_t max_events, session::ResultCallback<session::ClusterTrace> done) override;

 private:
  void Open(Link::Options options, session::ResultCallback<std::shared_ptr<RemoteSession>> done);
  Link::Options LinkOptions(std::string description) const;
  std::shared_ptr<RemoteSession> Find(SessionId session);
  // By this session; NOT_FOUND if it has ended.
  void Ask(SessionId session, ::pathways::v1::SessionRequest request, AnswerCallback done);
  // By any.
  void Ask(::pathways::v1::SessionRequest request, AnswerCallback done);

  const Options options_;
  const Link::Environment environment_;
  std::shared_ptr<const session::ClusterInfo> info_ = std::make_shared<const session::ClusterInfo>();  // as the last session was told
  absl::flat_hash_map<SessionId, std::weak_ptr<RemoteSession>> sessions_;
};

}  // namespace pw::client
