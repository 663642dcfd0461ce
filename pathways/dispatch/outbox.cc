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

// Data on its way, answers and the link's own business never wait: what is under way may need them to end.
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
      return false;
    default:
      return true;
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

void Outbox::BeginExclusive(absl::AnyInvocable<void() &&> start) {
  if (exclusive_) {
    later_.push_back([this, start = std::move(start)]() mutable { BeginExclusive(std::move(start)); });
    return;
  }
  exclusive_ = true;
  std::move(start)();
}

void Outbox::EndExclusive() {
  exclusive_ = false;
  while (!exclusive_ && !later_.empty()) {
    auto next = std::move(later_.front());
    later_.pop_front();
    std::move(next)();
  }
}

void Outbox::Add(HostId host, Command command, std::vector<Bytes> payload) {
  if (!exclusive_ || !WaitsForOthers(command.kind_case())) return AddNow(host, std::move(command), std::move(payload));
  later_.push_back([this, host, command = std::move(command), payload = std::move(payload)]() mutable {
    Add(host, std::move(command), std::move(payload));
  });
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

void Outbox::Release(HostId host, ArrayId array) {
  if (exclusive_) {
    later_.push_back([this, host, array] { Release(host, array); });
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
  if (box.batch.commands_size() == 0) return;
  ++box.counters.frames;
  box.closed.push_back({box.batch.SerializeAsString(), std::exchange(box.payload, {})});
  box.batch.Clear();
  box.header_bytes = box.payload_bytes = 0;
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
