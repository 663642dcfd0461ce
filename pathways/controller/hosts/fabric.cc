#include "pathways/controller/hosts/fabric.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/shared/shared_pass_on.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::Event;

absl::StatusOr<uint64_t> PayloadBytes(const Event& event) {
  switch (event.kind_case()) {
    case Event::kFetched:
      return event.fetched().payload_bytes();
    case Event::kChunk:
      return event.chunk().payload_bytes();
    case Event::kDataflow:
      return event.dataflow().payload_bytes();
    case Event::kHostCall: {
      uint64_t total = 0;
      for (const auto& operand : event.host_call().operands()) {
        if (__builtin_add_overflow(total, operand.bytes(), &total))
          return absl::InternalError("the sizes of a Python call's operands overflow their sum");
      }
      return total;
    }
    default:
      return 0;
  }
}

Fabric::Fabric(const SessionLimits& limits, const gang::Options& gang, Clock* clock, std::function<void(Task)> post)
    : limits_(limits),
      clock_(clock),
      post_(std::move(post)),
      losses_(clock, &devices_.topology()),
      recorder_(clock),
      gangs_(gang, clock, &devices_.topology(), &outbox_, &recorder_) {
  ops_.Set(&gangs_, &losses_, &settlement_);
  outbox_.SetRiders([this](HostId host, ::pathways::v1::ToWorker* frame) { settlement_.Tell(host, frame); });
}

void Fabric::AddHost(HostId host, net::FrameSink* sink) {
  gangs_.OnHostJoined(topology().FindHost(host)->devices);
  outbox_.AddHost(host);
  peers_[host] = std::make_unique<Peer>(
      Peer{sink, BulkSender(sink, [this, host](uint64_t transfer) { outgoing_.Done(host, transfer); }), false, {}, {}});
}

void Fabric::SetTakesShared(HostId host) {
  auto it = peers_.find(host);
  if (it != peers_.end()) it->second->takes_shared = true;
}

bool Fabric::takes_shared(HostId host) const {
  auto it = peers_.find(host);
  return it != peers_.end() && it->second->takes_shared;
}

void Fabric::SetProcessAddress(HostId host, std::string address) {
  auto it = peers_.find(host);
  if (it != peers_.end()) it->second->process_address = std::move(address);
}

std::string Fabric::process_address(HostId host) const {
  auto it = peers_.find(host);
  return it == peers_.end() ? "" : it->second->process_address;
}

void Fabric::SetLaneAddress(HostId host, std::string address) {
  auto it = peers_.find(host);
  if (it != peers_.end()) it->second->lane_address = std::move(address);
}

std::string Fabric::lane_address(HostId host) const {
  auto it = peers_.find(host);
  return it == peers_.end() ? "" : it->second->lane_address;
}

void Fabric::RemoveHost(HostId host, const std::vector<DeviceId>& devices, const absl::Status& error) {
  devices_.SetGone(devices, error);
  outbox_.RemoveHost(host);
  peers_.erase(host);
  outgoing_.RemoveHost(host);
  gangs_.OnHostLost(host, devices, error);
  ops_.OnHostLost(host, error);
  losses_.OnHostLost(host, error);
  fetches_.FailHost(host, error);
  compiles_.FailHost(host, error);
  descriptions_.FailHost(host, error);
  settlement_.RemoveHost(host);
  holdings_.RemoveHost(host);
}

void Fabric::Disconnect() { peers_.clear(); }

absl::Status Fabric::OnEvent(HostId host, const Event& event, Bytes payload) {
  switch (event.kind_case()) {
    case Event::kDone:
      ops_.OnDone(host, event.done());
      break;
    case Event::kSharedTaken:
      if (auto it = peers_.find(host); it != peers_.end()) {
        for (uint64_t transfer : event.shared_taken().transfers()) {
          it->second->unopened.Return(transfer);
          outgoing_.Done(host, transfer);
        }
      }
      break;
    case Event::kFetched:
      OnFetched(host, event.fetched(), std::move(payload));
      break;
    case Event::kChunk:
      CountArrayBytes(payload.size());
      fetches_.OnChunk(host, event.chunk(), payload);
      break;
    case Event::kCompiled:
      compiles_.Resolve(event.compiled().executable(), host, event.compiled());
      break;
    case Event::kDescribed:
      descriptions_.Resolve(event.described().query(), host, event.described());
      break;
    default:
      return absl::InternalError(
          absl::StrCat("a worker sent event ", static_cast<int>(event.kind_case()), ", which a joined worker never sends"));
  }
  return absl::OkStatus();
}

void Fabric::OnFetched(HostId host, const ::pathways::v1::Fetched& fetched, Bytes payload) {
  CountArrayBytes(payload.size());
  if (fetched.has_shared()) return OnFetchedShared(host, fetched);
  const absl::Status error = session::StatusFrom(fetched.status());
  if (error.ok()) return fetches_.OnFetched(host, fetched, std::move(payload));
  losses_.Explain(host, error,
                  [this, host, id = fetched.fetch()](const absl::Status& status) { fetches_.Fail(host, id, status); });
}

void Fabric::OnFetchedShared(HostId host, const ::pathways::v1::Fetched& fetched) {
  absl::StatusOr<Bytes> data = net::OpenToPassOn(net::ReadName(fetched.shared()));
  CountArrayBytes(fetched.total_bytes());
  Command command;
  command.mutable_shared_taken()->add_transfers(fetched.fetch());
  outbox_.Add(host, std::move(command));
  ::pathways::v1::Fetched plain;
  plain.set_fetch(fetched.fetch());
  plain.set_total_bytes(fetched.total_bytes());
  if (!data.ok()) return fetches_.Fail(host, fetched.fetch(), data.status());
  fetches_.OnFetched(host, plain, *std::move(data));
}

void Fabric::OnBulkWritable(HostId host) {
  auto it = peers_.find(host);
  if (it != peers_.end()) it->second->bulk.Pump();
}

void Fabric::Flush() {
  gangs_.FlushGrants();
  clean_ups_.Flush([this](const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what) {
    if (send_clean_up_) send_clean_up_(hosts, what);
  });
  outbox_.Flush([this](HostId host, std::string header, std::vector<Bytes> payload) {
    auto it = peers_.find(host);
    if (it != peers_.end()) it->second->sink->Send(std::move(header), std::move(payload), net::Lane::kUrgent);
  });
}

void Fabric::SendBytes(HostId host, SessionId session, uint64_t transfer, const Bytes& data, bool exclusive) {
  auto it = peers_.find(host);
  if (it == peers_.end()) return;
  const std::optional<net::SharedName> name = it->second->takes_shared ? net::NameOf(data) : std::nullopt;
  if (name.has_value()) {
    Command command;
    auto& chunk = *command.mutable_chunk();
    chunk.set_transfer(transfer);
    chunk.set_total_bytes(data.size());
    chunk.set_session(session.v);
    chunk.set_exclusive(exclusive);
    net::WriteName(*name, chunk.mutable_shared());
    outbox_.Add(host, std::move(command));
    it->second->unopened.Add(transfer, session, data);
    outgoing_.Add(session, host, transfer, static_cast<int64_t>(data.size()));
    return;
  }
  if (data.size() > kChunkBytes) {
    outgoing_.Add(session, host, transfer, static_cast<int64_t>(data.size()));
    it->second->bulk.Enqueue(session, transfer, data);
    return;
  }
  Command command;
  auto& chunk = *command.mutable_chunk();
  chunk.set_transfer(transfer);
  chunk.set_total_bytes(data.size());
  chunk.set_payload_bytes(data.size());
  chunk.set_session(session.v);
  outbox_.Add(host, std::move(command), {data});
}

absl::StatusOr<dataflow::GraphId> Fabric::InstallProgram(SessionId session, const std::shared_ptr<const dataflow::Graph>& graph) {
  PW_ASSIGN_OR_RETURN(const dataflow::GraphId id, dataflow_->Install(graph));
  programs_[session].insert(id);
  for (uint32_t i = 0; i < graph->hosts().size(); ++i) outbox_.CountProgram(graph->hosts().At(i));
  return id;
}

void Fabric::UninstallProgram(SessionId session, dataflow::GraphId graph) {
  auto it = programs_.find(session);
  if (it == programs_.end() || it->second.erase(graph) == 0) return;
  dataflow_->Uninstall(graph);
}

void Fabric::StartProgram(dataflow::GraphId graph, absl::flat_hash_map<HostId, std::string> arguments) {
  for (const auto& [host, argument] : arguments) outbox_.CountRun(host);
  const auto all = std::make_shared<absl::flat_hash_map<HostId, std::string>>(std::move(arguments));
  dataflow::RunOptions options;
  options.argument_of = [all](HostId host) { return std::move(all->at(host)); };
  dataflow_->Start(graph, std::move(options));
}

void Fabric::EndSession(SessionId session) {
  const absl::Status ended = absl::CancelledError("the session has ended");
  fetches_.FailSession(session, ended);
  compiles_.FailSession(session, ended);
  descriptions_.FailSession(session, ended);
  gangs_.EndSession(session);
  settlement_.End(session);
  outgoing_.RemoveSession(session);
  for (HostId host : SortedKeys(peers_)) {
    peers_.at(host)->bulk.DropSession(session);
    peers_.at(host)->unopened.DropSession(session);
  }
  // A run that is sent node by node sends nothing more, and may wait for a grant that never comes. It ends only when the hosts
  // free the session's objects.
  outbox_.order().EndSession(session);
  if (auto programs = programs_.extract(session); !programs.empty()) {
    for (dataflow::GraphId graph : programs.mapped()) dataflow_->Uninstall(graph);
  }
  ::pathways::v1::CleanUp what;
  what.add_sessions(session.v);
  clean_ups_.Add(session, SortedKeys(peers_), std::move(what));
}

size_t Fabric::queued_bulk_bytes(HostId host) const {
  auto it = peers_.find(host);
  return it == peers_.end() ? 0 : it->second->bulk.queued_bytes();
}

}  // namespace pw::controller
