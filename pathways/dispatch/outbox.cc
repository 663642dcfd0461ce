#include "pathways/dispatch/outbox.h"

#include <utility>

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;

// A batch is closed beyond these; well below what transports accept.
constexpr size_t kMaxHeaderBytes = 1 << 20;
constexpr size_t kMaxPayloadBytes = 8 << 20;
constexpr int kMaxCommands = 1024;
constexpr size_t kMaxReleased = 32768;

// Data on its way, answers, grants and the link's own business never wait: what is under way may need them to end.
bool WaitsForOthers(Command::KindCase kind) {
  switch (kind) {
    case Command::kWelcome:
    case Command::kPeers:
    case Command::kPing:
    case Command::kShutdown:
    case Command::kCompile:
    case Command::kDescribe:
    case Command::kChunk:
    case Command::kAbortTransfer:
    case Command::kHostReply:
    case Command::kMemoryQuery:
    case Command::kTrace:
    case Command::kDataflow:
    case Command::kGrant:
    case Command::kSharedTaken:
      return false;
    default:
      return true;
  }
}

// Of those that say it, and wait.
SessionId OwnerOf(const Command& command) {
  switch (command.kind_case()) {
    case Command::kExecute:
      return SessionId(command.execute().session());
    case Command::kPut:
      return SessionId(command.put().session());
    case Command::kAlias:
      return SessionId(command.alias().session());
    case Command::kMove:
      return SessionId(command.move().session());
    case Command::kBitcast:
      return SessionId(command.bitcast().session());
    case Command::kPoison:
      return SessionId(command.poison().session());
    case Command::kLoadProgram:
      return SessionId(command.load_program().session());
    case Command::kRunProgram:
      return SessionId(command.run_program().session());
    default:
      return SessionId();
  }
}

}  // namespace

uint64_t CommandCounters::of(Command::KindCase kind) const {
  auto it = commands.find(kind);
  return it == commands.end() ? 0 : it->second;
}

void Outbox::AddHost(HostId host) { hosts_.try_emplace(host); }

void Outbox::RemoveHost(HostId host) { hosts_.erase(host); }

void Outbox::Touch(HostId host, PerHost& box) {
  if (!box.queued) busy_.push_back(host);
  box.queued = true;
}

Outbox::Section* Outbox::ActiveSection(SessionId session) {
  if (sections_.empty()) return nullptr;
  auto it = sections_.find(session);
  return it != sections_.end() && it->second.active ? &it->second : nullptr;
}

void Outbox::BeginExclusive(SessionId session, absl::AnyInvocable<void() &&> start) {
  if (Section* section = ActiveSection(session); section != nullptr) {
    section->later.push_back([this, session, start = std::move(start)]() mutable { BeginExclusive(session, std::move(start)); });
    return;
  }
  sections_[session].active = true;
  std::move(start)();
}

// What follows may begin the next section, and end it.
void Outbox::EndExclusive(SessionId session) {
  auto it = sections_.find(session);
  if (it == sections_.end()) return;
  it->second.active = false;
  while (it != sections_.end() && !it->second.active) {
    if (it->second.later.empty()) {
      sections_.erase(it);
      return;
    }
    auto next = std::move(it->second.later.front());
    it->second.later.pop_front();
    std::move(next)();
    it = sections_.find(session);
  }
}

void Outbox::InOrder(SessionId session, absl::AnyInvocable<void() &&> task) {
  Section* const section = ActiveSection(session);
  if (section == nullptr) return std::move(task)();
  section->later.push_back(std::move(task));
}

void Outbox::Add(HostId host, Command command, std::vector<Bytes> payload) {
  Section* const section = sections_.empty() || !WaitsForOthers(command.kind_case()) ? nullptr : ActiveSection(OwnerOf(command));
  if (section == nullptr) return AddNow(host, std::move(command), std::move(payload));
  section->later.push_back([this, host, command = std::move(command), payload = std::move(payload)]() mutable {
    Add(host, std::move(command), std::move(payload));
  });
}

void Outbox::AddFor(SessionId owner, HostId host, Command command) {
  InOrder(owner, [this, host, command = std::move(command)]() mutable { AddNow(host, std::move(command), {}); });
}

void Outbox::AddNow(HostId host, Command command, std::vector<Bytes> payload) {
  auto it = hosts_.find(host);
  if (it == hosts_.end()) return;
  PerHost& box = it->second;
  Touch(host, box);
  ++box.counters.commands[command.kind_case()];
  box.header_bytes += command.ByteSizeLong() + 8;
  *box.batch.add_commands() = std::move(command);
  for (Bytes& piece : payload) {
    box.payload_bytes += piece.size();
    if (!piece.empty()) box.payload.push_back(std::move(piece));
  }
  if (box.header_bytes >= kMaxHeaderBytes || box.payload_bytes >= kMaxPayloadBytes || box.batch.commands_size() >= kMaxCommands)
    Close(box);
}

void Outbox::Release(HostId host, ArrayId array, SessionId owner) {
  if (Section* section = ActiveSection(owner); section != nullptr) {
    section->later.push_back([this, host, array, owner] { Release(host, array, owner); });
    return;
  }
  auto it = hosts_.find(host);
  if (it == hosts_.end()) return;
  Touch(host, it->second);
  it->second.released.push_back(array.v);
  if (it->second.released.size() >= kMaxReleased) Close(it->second);
}

void Outbox::Close(PerHost& box) {
  if (!box.released.empty()) {
    auto& arrays = *box.batch.add_commands()->mutable_release()->mutable_arrays();
    arrays.Add(box.released.begin(), box.released.end());
    box.released.clear();
    ++box.counters.commands[Command::kRelease];
  }
  if (box.batch.commands_size() == 0 && box.reports_told >= box.reports_due) return;
  if (box.reports_told < box.reports_seen) box.batch.set_reports_seen(box.reports_seen);
  box.reports_told = box.reports_seen;
  ++box.counters.frames;
  box.closed.push_back({box.batch.SerializeAsString(), std::exchange(box.payload, {})});
  box.batch.Clear();
  box.header_bytes = box.payload_bytes = 0;
}

void Outbox::SetReportsSeen(HostId host, uint64_t number) {
  auto it = hosts_.find(host);
  if (it == hosts_.end() || number <= it->second.reports_seen) return;
  it->second.reports_seen = number;
  if (!std::exchange(it->second.reporting, true)) reporting_.push_back(host);
}

bool Outbox::TellReportsSeen() {
  for (HostId host : std::exchange(reporting_, {})) {
    auto it = hosts_.find(host);
    if (it == hosts_.end()) continue;
    PerHost& box = it->second;
    if (box.reports_told < box.reports_due) Touch(host, box);
    box.reports_due = box.reports_seen;
    box.reporting = box.reports_told < box.reports_seen;
    if (box.reporting) reporting_.push_back(host);
  }
  return !reporting_.empty();
}

bool Outbox::Flush(Send send) {
  bool any = false;
  for (HostId host : std::exchange(busy_, {})) {
    auto it = hosts_.find(host);
    if (it == hosts_.end()) continue;
    it->second.queued = false;
    Close(it->second);
    for (Frame& frame : std::exchange(it->second.closed, {})) {
      any = true;
      send(host, std::move(frame.header), std::move(frame.payload));
    }
  }
  return any;
}

CommandCounters Outbox::counters(HostId host) const {
  auto it = hosts_.find(host);
  return it == hosts_.end() ? CommandCounters{} : it->second.counters;
}

}  // namespace pw::dispatch
