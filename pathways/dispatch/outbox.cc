#include "pathways/dispatch/outbox.h"

#include <utility>

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;

// A batch is closed at these limits, which are well below the transports'.
constexpr size_t kMaxHeaderBytes = 1 << 20;
constexpr size_t kMaxPayloadBytes = 8 << 20;
constexpr int kMaxCommands = 1024;
constexpr size_t kMaxReleased = 32768;

void AddMoved(const ::pathways::v1::Move& move, std::vector<ArrayId>* arrays) {
  for (const auto& send : move.sends()) arrays->push_back(ArrayId(send.array()));
  for (const auto& receive : move.receives()) {
    arrays->push_back(ArrayId(receive.array()));
    for (const auto& piece : receive.pieces()) arrays->push_back(ArrayId(piece.source_array()));
  }
}

template <class Numbers>
void AddAll(const Numbers& numbers, std::vector<ArrayId>* arrays) {
  for (uint64_t number : numbers) arrays->push_back(ArrayId(number));
}

// Returns the arrays that a command names. Kinds that only runs send (AddNow) are not listed.
std::vector<ArrayId> ArraysOf(const Command& command) {
  std::vector<ArrayId> arrays;
  switch (command.kind_case()) {
    case Command::kExecute:
      AddAll(command.execute().args(), &arrays);
      AddAll(command.execute().results(), &arrays);
      break;
    case Command::kPut:
      arrays.push_back(ArrayId(command.put().array()));
      break;
    case Command::kFetch:
      arrays.push_back(ArrayId(command.fetch().array()));
      break;
    case Command::kAlias:
      for (const auto& item : command.alias().items()) {
        arrays.push_back(ArrayId(item.array()));
        arrays.push_back(ArrayId(item.source_array()));
      }
      break;
    case Command::kMove:
      AddMoved(command.move(), &arrays);
      break;
    case Command::kBitcast:
      arrays.push_back(ArrayId(command.bitcast().source()));
      arrays.push_back(ArrayId(command.bitcast().result()));
      break;
    case Command::kSaveTiles:
      arrays.push_back(ArrayId(command.save_tiles().array()));
      break;
    case Command::kLoadTiles:
      arrays.push_back(ArrayId(command.load_tiles().array()));
      break;
    case Command::kPoison:
      AddAll(command.poison().arrays(), &arrays);
      break;
    default:
      break;
  }
  return arrays;
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

void Outbox::Add(HostId host, Command command, std::vector<Bytes> payload) {
  if (order_.empty()) return AddNow(host, std::move(command), std::move(payload));
  std::vector<ArrayId> arrays = ArraysOf(command);
  if (!order_.MustWait(arrays)) return AddNow(host, std::move(command), std::move(payload));
  order_.DoLater(std::move(arrays), [this, host, command = std::move(command), payload = std::move(payload)]() mutable {
    AddNow(host, std::move(command), std::move(payload));
  });
}

void Outbox::AddNow(HostId host, Command command, std::vector<Bytes> payload) {
  auto it = hosts_.find(host);
  if (it == hosts_.end()) return;
  PerHost& box = it->second;
  Touch(host, box);
  if (box.batch.commands_size() == 0) AddReleases(box);  // what was freed before makes room for this command
  ++box.counters.commands[command.kind_case()];
  box.header_bytes += command.ByteSizeLong() + 8;
  *box.batch.add_commands() = std::move(command);
  for (Bytes& piece : payload) {
    box.payload_bytes += piece.size();
    if (!piece.empty()) box.payload.push_back(std::move(piece));
  }
  if (box.header_bytes >= kMaxHeaderBytes || box.payload_bytes >= kMaxPayloadBytes || box.batch.commands_size() >= kMaxCommands)
    Close(host, box);
}

void Outbox::Release(HostId host, ArrayId array) {
  if (order_.MustWait({&array, 1})) return order_.DoLater({array}, [this, host, array] { ReleaseNow(host, array); });
  ReleaseNow(host, array);
}

void Outbox::ReleaseNow(HostId host, ArrayId array) {
  auto it = hosts_.find(host);
  if (it == hosts_.end()) return;
  Touch(host, it->second);
  it->second.released.push_back(array.v);
  if (it->second.released.size() >= kMaxReleased) Close(host, it->second);
}

void Outbox::AddReleases(PerHost& box) {
  if (box.released.empty()) return;
  auto& arrays = *box.batch.add_commands()->mutable_release()->mutable_arrays();
  arrays.Add(box.released.begin(), box.released.end());
  box.released.clear();
  ++box.counters.commands[Command::kRelease];
}

void Outbox::Close(HostId host, PerHost& box) {
  AddReleases(box);
  if (box.batch.commands_size() == 0 && box.reports_told >= box.reports_due) return;
  if (box.reports_told < box.reports_seen) box.batch.set_reports_seen(box.reports_seen);
  box.reports_told = box.reports_seen;
  if (riders_) riders_(host, &box.batch);
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
    Close(host, it->second);
    for (Frame& frame : std::exchange(it->second.closed, {})) {
      any = true;
      send(host, std::move(frame.header), std::move(frame.payload));
    }
  }
  return any;
}

void Outbox::CountProgram(HostId host) {
  if (auto it = hosts_.find(host); it != hosts_.end()) ++it->second.counters.programs;
}

void Outbox::CountRun(HostId host) {
  if (auto it = hosts_.find(host); it != hosts_.end()) ++it->second.counters.runs;
}

const CommandCounters& Outbox::counters(HostId host) const {
  static const CommandCounters kNone;
  auto it = hosts_.find(host);
  return it == hosts_.end() ? kNone : it->second.counters;
}

}  // namespace pw::dispatch
