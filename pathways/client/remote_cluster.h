// RemoteCluster: session::Cluster with the controller in another process. Front doors beside the client use it.
//
// Every session has a connection of its own (link.h), so that one client's bytes do not delay another's. An operator's request
// goes over an observer session that is opened for the request.
//
// Everything runs on the environment's strand. This must outlive the callbacks passed to it; sessions may outlive this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "pathways/client/answers.h"
#include "pathways/client/link.h"
#include "pathways/client/remote_session.h"
#include "pathways/session/session.h"

namespace pw::client {

class RemoteCluster final : public session::Cluster {
 public:
  struct Options {
    std::string controller;                            // its address for clients
    absl::Duration patience = absl::Seconds(30);       // the longest wait for it while a session is opened
    bool retry = true;                                 // false: `patience` is for one attempt
    std::string remedy;                                // advice for people about a lost session (link.h)
    identity::TokenSource token = {};                  // identifies the clients (session.proto)
    std::function<void(const std::string&)> say = {};  // takes a line for the user about a lost connection (link.h)
    // Passes refusals of new sessions to `say`, each once: jax's IFRT proxy client tries again for a long time before it shows one.
    bool say_refusals = false;
    std::string machine;  // this machine's name, added to the descriptions of sessions; may be empty
  };

  RemoteCluster(Options options, const Link::Environment& environment);

  // --- Cluster ---
  void Post(absl::AnyInvocable<void() &&> task) override { environment_.strand->Post(std::move(task)); }
  std::shared_ptr<const session::ClusterInfo> info() const override { return info_; }
  void OpenSession(session::NewSession session, session::ResultCallback<std::shared_ptr<session::Session>> done) override;
  void SetHostCallHandler(SessionId session, std::shared_ptr<session::HostCallHandler> handler) override;
  void ChangeShare(SessionId session, const gang::ShareChange& change, session::ResultCallback<gang::Share> done) override;
  std::shared_ptr<const session::SpareDevices> Spares(SessionId session) override;
  void AddSlice(SessionId session, const resource::SliceRequest& request,
                session::ResultCallback<session::SliceState> done) override;
  void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit,
                  session::ResultCallback<session::SliceState> done) override;
  void ReleaseSlice(SessionId session, SliceId slice, session::StatusCallback done) override;
  void SuspendClient(SessionId session, bool resume, session::ResultCallback<session::SuspendReport> done) override;
  void DrainHost(const std::string& host, bool undo, session::ResultCallback<session::DrainReport> done) override;
  void GetStatus(session::ResultCallback<std::string> done) override;
  // The controller knows the token's user, and answers accordingly.
  void GetStatusFor(const std::string& user, session::ResultCallback<std::string> done) override { GetStatus(std::move(done)); }
  void RecordTrace(absl::Duration duration, size_t max_events, session::ResultCallback<session::ClusterTrace> done) override;
  void StartProfile(SessionId session, const session::ProfileOptions& options, session::StatusCallback done) override;
  void StopProfile(SessionId session, session::ResultCallback<session::ClusterProfile> done) override;
  void ReadProfile(SessionId session, size_t host, uint64_t offset, session::ResultCallback<Bytes> done) override;
  void DropProfile(SessionId session) override;
  // Opens a session of an operator's tool, for requests that belong to one another. It lives as long as the caller keeps it.
  void Observe(session::ResultCallback<std::shared_ptr<RemoteSession>> done);
  // Says goodbye for the session, for a process that ends.
  void Leave(SessionId session, absl::AnyInvocable<void() &&> done);
  // Ends all sessions, also those that are being opened. Returns when nothing of them uses the environment, whose parts may then be destroyed. Not
  // called on the strand.
  void EndSessions();
  // Does the same on the strand. The sessions' ends post tasks; then those may still use the environment.
  void EndSessionsHere();
  // Makes, lists or revokes tokens; answers text (session.proto, TokenQuestion).
  void AskTokens(const ::pathways::v1::TokenQuestion& question, session::ResultCallback<std::string> done);
  // Changes or shows the limits of users; answers JSON (session.proto, QuotaQuestion).
  void AskQuotas(const ::pathways::v1::QuotaQuestion& question, session::ResultCallback<std::string> done);

 private:
  void Open(Link::Options options, session::ResultCallback<std::shared_ptr<RemoteSession>> done);
  void SayRefusal(const absl::Status& refusal);
  Link::Options LinkOptions(std::string description) const;
  std::shared_ptr<RemoteSession> Find(SessionId session);
  // Sends over this session; NOT_FOUND if it has ended.
  void Ask(SessionId session, ::pathways::v1::SessionRequest request, AnswerCallback done);
  // Sends over a new observer session.
  void Ask(::pathways::v1::SessionRequest request, AnswerCallback done);

  const Options options_;
  const Link::Environment environment_;
  // As the controller told the last session.
  std::shared_ptr<const session::ClusterInfo> info_ = std::make_shared<const session::ClusterInfo>();
  std::vector<std::weak_ptr<RemoteSession>> sessions_;  // also those that are being opened, and those of operators' requests
  std::string said_refusal_;
};

}  // namespace pw::client
