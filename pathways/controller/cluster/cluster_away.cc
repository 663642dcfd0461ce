// Hosts whose connections have broken: kept for a while, back, or given up.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/controller/cluster/observation.h"
#include "pathways/session/absence.h"

namespace pw::controller {

using ::pathways::v1::ToWorker;

namespace {

// The time limit of an attempt to reach a host's process, and the pause between two attempts.
constexpr absl::Duration kProbeTime = absl::Milliseconds(100);
constexpr absl::Duration kProbePause = absl::Milliseconds(400);

// Returns whether the network may have failed, or a process ended. Any other cause would end the next connection too.
bool IsBreak(const absl::Status& reason) { return absl::IsUnavailable(reason) || absl::IsDeadlineExceeded(reason); }

net::Counters Sum(const net::Counters& a, const net::Counters& b) {
  return {a.frames_sent + b.frames_sent, a.bytes_sent + b.bytes_sent, a.frames_received + b.frames_received,
          a.bytes_received + b.bytes_received};
}

std::string Short(absl::Duration duration) { return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1))); }

}  // namespace

net::Counters ClusterImpl::CountersOf(const JoinedHost& host) const {
  const auto link = links_.find(host.link);
  return link == links_.end() ? host.earlier : Sum(host.earlier, link->second.link->connection()->counters());
}

void ClusterImpl::OnSilent(LinkId id) {
  const absl::Status reason =
      absl::DeadlineExceededError(absl::StrCat("nothing heard from it for ", absl::FormatDuration(options_.heartbeat_limit)));
  if (links_.at(id).state == LinkState::kHost) return OnBroken(id, reason);
  EndLink(id, reason);
}

void ClusterImpl::OnBroken(LinkId id, const absl::Status& reason) {
  Link& link = links_.at(id);
  JoinedHost& host = hosts_.at(link.host);
  net::Connection* const connection = link.link->connection();
  const absl::Time now = environment_.clock->Now();
  if (SleptUntil(now))
    host.last_heard = now;  // the worker may have given up this connection meanwhile, and its next one was not read yet
  const absl::Duration kept =
      session::KeptAfter({connection->breakable(), host.own_end, connection->peer(), reason}, options_.host_grace);
  const bool can_return = host.stream->resumable() && host.stream->heard() && IsBreak(reason);
  if (!can_return || host.last_heard + kept <= now) return EndLink(id, reason);
  host.earlier = CountersOf(host);
  host.stream->Lose();
  host.link = 0;
  host.away_since = now;
  host.kept_until = host.last_heard + kept;
  host.broken = reason;
  ++host.absence;
  link.state = LinkState::kLeaving;
  connection->Close(reason);
  const std::string name = fabric_->topology().Describe(*fabric_->topology().FindHost(link.host));
  PW_LOG_WARNING << name << " has lost its connection, and is kept for " << Short(host.kept_until - now) << ": "
                 << reason.message();
  observation_->Note("host away", absl::StrCat(name, ": ", reason.message()));
  ProbeProcess(link.host);
}

void ClusterImpl::ProbeProcess(HostId id) {
  const JoinedHost& host = hosts_.at(id);
  if (host.hello.data_address().empty()) return;
  transport_->Connect(
      host.hello.data_address(), kProbeTime,
      [weak = weak_from_this(), id, absence = host.absence](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        auto self = weak.lock();
        if (self == nullptr) return;
        self->strand_.Post([weak, id, absence, status = connection.status()] {
          if (auto cluster = weak.lock()) cluster->OnProbed(id, absence, status);
        });
      });
}

void ClusterImpl::OnProbed(HostId id, uint64_t absence, const absl::Status& connected) {
  const auto still_away = [id, absence](const ClusterImpl& cluster) {
    const auto it = cluster.hosts_.find(id);
    return it != cluster.hosts_.end() && it->second.link == 0 && it->second.absence == absence && !cluster.stopped_;
  };
  if (!still_away(*this)) return;
  const JoinedHost& host = hosts_.at(id);
  if (net::NobodyListens(connected)) {
    return LoseHost(id, absl::UnavailableError(absl::StrCat("its process has ended: ", host.broken.message(),
                                                            ", and nobody listens at ", host.hello.data_address(), " any more")));
  }
  environment_.timers->After(kProbePause, &strand_, [weak = weak_from_this(), id, still_away] {
    auto self = weak.lock();
    if (self != nullptr && still_away(*self)) self->ProbeProcess(id);
  });
}

void ClusterImpl::OnResume(LinkId id, const ::pathways::v1::Resume& resume) {
  if (absl::Status status = AdmitWorker(links_.at(id), resume.token()); !status.ok()) return Refuse(id, status);
  Trust(id);
  const HostId host_id(resume.host());
  const auto it = hosts_.find(host_id);
  // The same answer for an unknown host and a wrong key, so that it does not reveal which hosts there are.
  if (it == hosts_.end() || it->second.key.empty() || !SameSecret(resume.key(), it->second.key))
    return GiveUp(id, NotKept(resume));
  JoinedHost& host = it->second;
  Link& link = links_.at(id);
  const net::ResumableLink::Counts received = {resume.received().urgent(), resume.received().bulk()};
  const net::Counters earlier = CountersOf(host);
  if (absl::Status status = host.stream->Resume(link.link->connection(), received); !status.ok())
    return GiveUp(id, std::string(status.message()));
  const std::string name = fabric_->topology().Describe(*fabric_->topology().FindHost(host_id));
  const absl::Time now = environment_.clock->Now();
  if (host.link == 0) {
    observation_->Note("host back", absl::StrCat(name, ", away for ", Short(now - host.away_since)));
  } else {
    Link& former = links_.at(host.link);
    former.state = LinkState::kLeaving;
    former.link->connection()->Close(absl::UnavailableError("the worker has connected anew"));
  }
  PW_LOG_INFO << name << " has connected anew from " << link.link->connection()->peer();
  host.earlier = earlier;
  host.link = id;
  host.own_end = resume.own_end();
  host.last_heard = now;
  link.state = LinkState::kHost;
  link.host = host_id;
  ToWorker answer;
  answer.set_beside(true);
  auto& counts = *answer.add_commands()->mutable_resumed()->mutable_received();
  counts.set_urgent(host.stream->received().urgent);
  counts.set_bulk(host.stream->received().bulk);
  link.link->connection()->Send(answer.SerializeAsString());
  host.stream->TellAgain();
  fabric_->OnBulkWritable(host_id);
}

void ClusterImpl::GiveUp(LinkId id, const std::string& reason) {
  Link& link = links_.at(id);
  link.state = LinkState::kLeaving;
  ToWorker message;
  message.set_beside(true);
  message.add_commands()->mutable_given_up()->set_reason(reason);
  link.link->connection()->Send(message.SerializeAsString());
  link.link->connection()->Close(absl::UnavailableError(reason));
}

std::string ClusterImpl::NotKept(const ::pathways::v1::Resume& resume) const {
  for (const GivenUpHost& one : given_up_) {
    if (one.host == HostId(resume.host()) && SameSecret(resume.key(), one.key))
      return absl::StrCat("it was given up: ", one.reason);
  }
  return absl::StrCat("this controller keeps no host ", resume.host(),
                      " for it: it was away for too long, or the controller has been started anew");
}

void ClusterImpl::WatchAway(absl::Time now, absl::Duration slept) {
  std::vector<std::pair<HostId, absl::Status>> gone;
  for (auto& [id, host] : hosts_) {
    if (host.link != 0) continue;
    host.kept_until += slept;  // a worker that has asked to resume meanwhile is heard soon
    if (const size_t kept = host.stream->kept_bytes(); kept > options_.host_kept_bytes) {
      gone.emplace_back(id, absl::ResourceExhaustedError(absl::StrCat(
                                "its connection is broken (", host.broken.message(), "), and ", kept,
                                " bytes of commands wait for it, more than the limit of ", options_.host_kept_bytes)));
    } else if (now >= host.kept_until) {
      gone.emplace_back(id, absl::DeadlineExceededError(absl::StrCat(host.broken.message(), "; it did not come back within ",
                                                                     Short(now - host.last_heard))));
    }
  }
  for (const auto& [id, why] : gone) LoseHost(id, why);
}

void ClusterImpl::LosePredecessor(const ::pathways::v1::Hello& hello) {
  for (const auto& [id, host] : hosts_) {
    if (host.link != 0 || hello.data_address().empty() || host.hello.data_address() != hello.data_address()) continue;
    return LoseHost(id,
                    absl::UnavailableError(absl::StrCat("its process has ended: another one listens at ", hello.data_address())));
  }
}

}  // namespace pw::controller
