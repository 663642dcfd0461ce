// What operators ask.
#include <unistd.h>

#include <utility>

#include "pathways/controller/cluster_impl.h"
#include "pathways/controller/status_report.h"
#include "pathways/controller/wire_status.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::MemoryReport;

// One question to every host; answered when all have, or when the time is up.
struct ClusterImpl::StatusQuery {
  std::map<HostId, MemoryReport> memory;
  size_t missing = 0;
  ResultCallback<std::string> done;  // empty once answered
};

void ClusterImpl::GetStatus(ResultCallback<std::string> done) {
  auto query = std::make_shared<StatusQuery>();
  query->done = std::move(done);
  query->missing = hosts_.size() + 1;  // and the end of this function
  auto one_less = [weak = weak_from_this(), query](bool at_once) {
    auto self = weak.lock();
    if (self == nullptr || !query->done) return;
    if (--query->missing > 0 && !at_once) return;
    self->strand_.Post([done = std::exchange(query->done, nullptr), json = self->StatusJson(query->memory)]() mutable {
      std::move(done)(json);
    });
  };
  for (const auto& [host, link] : hosts_) {
    Command command;
    command.mutable_memory_query()->set_query(fabric_->NextId());
    fabric_->memory_reports().Add(command.memory_query().query(), host, SessionId(),
                                  [query, one_less, host = host](absl::StatusOr<MemoryReport> report) {
                                    if (report.ok()) query->memory[host] = *std::move(report);
                                    one_less(false);
                                  });
    fabric_->outbox().Add(host, std::move(command));
  }
  environment_.timers->After(options_.status_timeout, &strand_, [one_less] { one_less(true); });
  one_less(false);
}

std::string ClusterImpl::StatusJson(const std::map<HostId, MemoryReport>& memory) {
  const absl::Time now = environment_.clock->Now();
  StatusReport report;
  report.version = options_.version;
  report.pid = getpid();
  report.uptime_seconds = absl::ToDoubleSeconds(now - started_);
  report.formed = formed_;
  report.expected_hosts = options_.expect_hosts;
  report.joined_hosts = static_cast<int>(hosts_.size() + PendingLinks().size());
  report.platform_name = info_->platform_name;
  report.stablehlo_version = info_->stablehlo_version;
  report.topology = fabric_->topology().TakeSnapshot();
  for (const auto& [host, link_id] : hosts_) {
    Link& link = links_[link_id];
    HostStatus& status = report.hosts[host];
    const absl::Duration silence = now - link.last_heard;
    status.state = silence > options_.heartbeat_limit / 3 ? "silent" : "up";
    status.pid = link.hello.pid();
    status.data_address = link.hello.data_address();
    status.peer = link.link->connection()->peer();
    status.seconds_since_heard = absl::ToDoubleSeconds(silence);
    const net::Counters counters = link.link->connection()->counters();
    status.bytes_sent = counters.bytes_sent;
    status.bytes_received = counters.bytes_received;
    status.frames_sent = counters.frames_sent;
    status.ops_in_flight = static_cast<int64_t>(fabric_->ops().CountFor(host));
    for (const auto& [kind, count] : fabric_->outbox().counters(host).commands) {
      status.commands[Command::descriptor()->FindFieldByNumber(kind)->name()] = count;
    }
    if (auto it = memory.find(host); it != memory.end()) status.memory = it->second;
  }
  for (const auto& [id, opened] : sessions_) {
    const SessionImpl& s = *opened.session;
    report.clients.push_back({id, s.description(), absl::ToDoubleSeconds(now - opened.since),
                              static_cast<int64_t>(s.num_arrays()), s.array_bytes(), s.staged_bytes(),
                              static_cast<int64_t>(s.num_executables())});
  }
  return ToJson(report);
}

void ClusterImpl::OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  it->second.state = LinkState::kLeaving;
  auto answer = [weak = weak_from_this(), id](absl::StatusOr<std::string> json) {
    auto self = weak.lock();
    if (self == nullptr) return;
    auto link = self->links_.find(id);
    if (link == self->links_.end()) return;
    ::pathways::v1::AdminReply reply;
    ToProto(json.status(), reply.mutable_status());
    if (json.ok()) reply.set_json(*std::move(json));
    link->second.link->connection()->Send(reply.SerializeAsString());
    link->second.link->connection()->Close(absl::CancelledError("answered"));
  };
  if (request.has_status()) return GetStatus(std::move(answer));
  answer(absl::UnimplementedError("this controller does not know that request"));
}

}  // namespace pw::controller
