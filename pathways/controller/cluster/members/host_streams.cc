#include "pathways/controller/cluster/members/host_streams.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/absence.h"

namespace pw::controller {

using ::pathways::v1::ToWorker;

namespace {

// Returns whether the network may have failed, or a process ended. Any other cause would end the next connection too.
bool IsBreak(const absl::Status& reason) { return absl::IsUnavailable(reason) || absl::IsDeadlineExceeded(reason); }

net::Counters Sum(const net::Counters& a, const net::Counters& b) {
  return {a.frames_sent + b.frames_sent, a.bytes_sent + b.bytes_sent, a.frames_received + b.frames_received,
          a.bytes_received + b.bytes_received};
}

std::string Short(absl::Duration duration) { return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1))); }

}  // namespace

HostStreams::HostStreams(ClusterContext context, PeerLinks* links, Observation* observation, Events events)
    : context_(context), links_(links), observation_(observation), events_(std::move(events)), probe_(context) {}

net::FrameSink* HostStreams::Add(HostId id, LinkId link, const ::pathways::v1::Hello& hello) {
  net::Connection* const connection = links_->connection(link);
  const bool resumable = connection->breakable() && context_.options().host_grace > absl::ZeroDuration();
  Host& host = hosts_[id];
  host.stream = std::make_unique<net::ResumableLink>(connection, resumable);
  host.link = link;
  host.data_address = hello.data_address();
  host.own_end = hello.own_end();
  if (resumable) host.key = context_.options().make_key();
  host.last_heard = links_->last_heard(link);
  links_->SetHost(link, id);
  return host.stream.get();
}

void HostStreams::Remove(HostId id, const absl::Status& reason, const absl::Status& loss) {
  const Host host = std::move(hosts_.extract(id).mapped());
  const std::string why(loss.message());
  if (!host.key.empty()) given_up_.Add(id, host.key, why);
  if (host.link == 0) return;
  if (host.key.empty()) return links_->Close(host.link, reason);
  links_->GiveUp(host.link, why);
}

net::Counters HostStreams::CountersOf(const Host& host) const {
  return host.link == 0 ? host.earlier : Sum(host.earlier, links_->connection(host.link)->counters());
}

uint64_t HostStreams::frames_heard() const {
  uint64_t frames = 0;
  for (const auto& [id, host] : hosts_) frames += CountersOf(host).frames_received;
  return frames;
}

std::optional<net::ResumableLink::Counts> HostStreams::received(HostId id) const {
  const net::ResumableLink& stream = *hosts_.at(id).stream;
  return stream.resumable() ? std::optional(stream.received()) : std::nullopt;
}

void HostStreams::Forgive(absl::Time now) {
  for (auto& [id, host] : hosts_) {
    if (host.link != 0) host.last_heard = now;
  }
}

absl::Status HostStreams::OnFrame(HostId id, const ::pathways::v1::FromWorker& frame, size_t bytes) {
  Host& host = hosts_.at(id);
  host.last_heard = context_.Now();
  if (frame.has_received()) {
    PW_RETURN_IF_ERROR(host.stream->Acknowledge({frame.received().urgent(), frame.received().bulk()}));
    events_.on_writable(id);
  }
  if (!frame.beside()) host.stream->Receive(frame.bulk() ? net::Lane::kBulk : net::Lane::kUrgent, bytes);
  return absl::OkStatus();
}

void HostStreams::OnBroken(HostId id, const absl::Status& reason, bool slept) {
  Host& host = hosts_.at(id);
  net::Connection* const connection = links_->connection(host.link);
  const absl::Time now = context_.Now();
  if (slept) host.last_heard = now;  // the worker may have given up this connection meanwhile, and its next one was not read yet
  const absl::Duration kept =
      session::KeptAfter({connection->breakable(), host.own_end, connection->peer(), reason}, context_.options().host_grace);
  const bool can_return = host.stream->resumable() && host.stream->heard() && IsBreak(reason);
  if (!can_return || host.last_heard + kept <= now) return events_.on_lost(id, reason);
  host.earlier = CountersOf(host);
  host.stream->Lose();
  host.away_since = now;
  host.kept_until = host.last_heard + kept;
  host.broken = reason;
  ++host.absence;
  links_->Close(std::exchange(host.link, 0), reason);
  const std::string name = events_.name_of(id);
  PW_LOG_WARNING << name << " has lost its connection, and is kept for " << Short(host.kept_until - now) << ": "
                 << reason.message();
  observation_->Note("host away", absl::StrCat(name, ": ", reason.message()));
  Probe(id);
}

void HostStreams::Probe(HostId id) {
  const Host& host = hosts_.at(id);
  const auto still_away = [this, id, absence = host.absence] {
    const auto it = hosts_.find(id);
    return it != hosts_.end() && it->second.link == 0 && it->second.absence == absence;
  };
  probe_.Watch(host.data_address, still_away, [this, id] {
    const Host& ended = hosts_.at(id);
    events_.on_lost(id, absl::UnavailableError(absl::StrCat("its process has ended: ", ended.broken.message(),
                                                            ", and nobody listens at ", ended.data_address, " any more")));
  });
}

void HostStreams::OnResume(LinkId link, const ::pathways::v1::Resume& resume) {
  const HostId id(resume.host());
  const auto it = hosts_.find(id);
  // The same answer for an unknown host and a wrong key, so that it does not reveal which hosts there are.
  if (it == hosts_.end() || it->second.key.empty() || !SameSecret(resume.key(), it->second.key))
    return links_->GiveUp(link, NotKept(resume));
  Host& host = it->second;
  const net::ResumableLink::Counts received = {resume.received().urgent(), resume.received().bulk()};
  const net::Counters earlier = CountersOf(host);
  if (absl::Status status = host.stream->Resume(links_->connection(link), received); !status.ok())
    return links_->GiveUp(link, std::string(status.message()));
  host.earlier = earlier;
  Reconnect(id, link, resume);
  ToWorker answer;
  auto& counts = *answer.add_commands()->mutable_resumed()->mutable_received();
  counts.set_urgent(host.stream->received().urgent);
  counts.set_bulk(host.stream->received().bulk);
  links_->Send(link, std::move(answer));
  host.stream->TellAgain();
  events_.on_writable(id);
}

void HostStreams::Reconnect(HostId id, LinkId link, const ::pathways::v1::Resume& resume) {
  Host& host = hosts_.at(id);
  const std::string name = events_.name_of(id);
  const absl::Time now = context_.Now();
  if (host.link == 0) {
    observation_->Note("host back", absl::StrCat(name, ", away for ", Short(now - host.away_since)));
  } else {
    links_->Close(host.link, absl::UnavailableError("the worker has connected anew"));
  }
  PW_LOG_INFO << name << " has connected anew from " << links_->connection(link)->peer();
  host.link = link;
  host.own_end = resume.own_end();
  host.last_heard = now;
  links_->SetHost(link, id);
}

std::string HostStreams::NotKept(const ::pathways::v1::Resume& resume) const {
  if (const std::optional<std::string> reason = given_up_.ReasonFor(HostId(resume.host()), resume.key()))
    return absl::StrCat("it was given up: ", *reason);
  return absl::StrCat("this controller keeps no host ", resume.host(),
                      " for it: it was away for too long, or the controller has been started anew");
}

void HostStreams::OnTick(absl::Time now, absl::Duration slept) {
  std::vector<std::pair<HostId, absl::Status>> gone;
  for (auto& [id, host] : hosts_) {
    if (host.link != 0) continue;
    host.kept_until += slept;  // a worker that has asked to resume meanwhile is heard soon
    const size_t most = context_.options().host_kept_bytes;
    if (const size_t kept = host.stream->kept_bytes(); kept > most) {
      gone.emplace_back(
          id, absl::ResourceExhaustedError(absl::StrCat("its connection is broken (", host.broken.message(), "), and ", kept,
                                                        " bytes of commands wait for it, more than the limit of ", most)));
    } else if (now >= host.kept_until) {
      gone.emplace_back(id, absl::DeadlineExceededError(absl::StrCat(host.broken.message(), "; it did not come back within ",
                                                                     Short(now - host.last_heard))));
    }
  }
  for (const auto& [id, why] : gone) events_.on_lost(id, why);
}

void HostStreams::LosePredecessor(const std::string& data_address) {
  for (const auto& [id, host] : hosts_) {
    if (host.link != 0 || data_address.empty() || host.data_address != data_address) continue;
    return events_.on_lost(id,
                           absl::UnavailableError(absl::StrCat("its process has ended: another one listens at ", data_address)));
  }
}

void HostStreams::AddTo(StatusReport* report) const {
  const absl::Time now = context_.Now();
  for (const auto& [id, host] : hosts_) {
    HostStatus& status = report->hosts[id];
    const absl::Duration silence = now - host.last_heard;
    status.state = silence > context_.options().heartbeat_limit / 3 ? "silent" : "up";
    status.data_address = host.data_address;
    if (host.link != 0) {
      status.peer = links_->connection(host.link)->peer();
    } else {
      status.state = "away";
      status.seconds_away = absl::ToDoubleSeconds(now - host.away_since);
    }
    status.seconds_since_heard = absl::ToDoubleSeconds(silence);
    const net::Counters counters = CountersOf(host);
    status.bytes_sent = counters.bytes_sent;
    status.bytes_received = counters.bytes_received;
    status.frames_sent = counters.frames_sent;
    status.frames_received = counters.frames_received;
  }
}

}  // namespace pw::controller
