// The runtime's event loop, and the frames that it sends and receives through the links.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/dataflow/runtime.h"

namespace pw::dataflow {
namespace {

// The number of events after which the strand turns to other tasks.
constexpr int kEventsPerTurn = 4096;
// The number of events of one run after which the next run has its turn.
constexpr int kEventsPerRun = 64;

}  // namespace

void Runtime::Settle() {
  if (busy_) return;
  busy_ = true;
  AfterEvent();
  int budget = kEventsPerTurn;
  while (budget > 0 && SettleOne()) --budget;
  busy_ = false;
  ArmTimer();
  if (budget == 0 && !std::exchange(posted_, true)) {
    Post([](Runtime& runtime) {
      runtime.posted_ = false;
      runtime.Settle();
    });
  }
}

// Local queues come before inbound tuples, so that they never grow by more than one frame brings.
bool Runtime::SettleOne() {
  if (!ready_.empty()) {
    StepRuns();
    return true;
  }
  if (!inbound_.empty()) {
    Inbound frame = std::move(inbound_.front());
    inbound_.pop_front();
    Take(std::move(frame));
    AfterEvent();
    return true;
  }
  return TellWritable();
}

void Runtime::StepRuns() {
  const RunId id = ready_.front();
  ready_.pop_front();
  bool more = true;
  for (int i = 0; i < kEventsPerRun && more; ++i) {
    auto it = runs_.find(id);
    more = it != runs_.end() && it->second->Step();
    AfterEvent();
  }
  if (more) {
    ready_.push_back(id);
  } else {
    is_ready_.erase(id);
  }
  EndIfOver(id);
  AfterEvent();
}

bool Runtime::TellWritable() {
  if (!std::exchange(room_changed_, false) || waiting_runs_.empty()) return false;
  for (RunId id : std::exchange(waiting_runs_, {})) {
    auto it = runs_.find(id);
    if (it == runs_.end()) continue;
    it->second->Writable();
    EndIfOver(id);
    AfterEvent();
  }
  return true;
}

void Runtime::AfterEvent() {
  for (const auto& [lane, bytes] : early_.TakeDue()) {
    if (!lost_.contains(lane.first)) Return(lane.first, lane.second, bytes);
  }
  batcher_.FlushCritical();
  removed_.clear();
}

void Runtime::SetBatching(const BatchingKnobs& knobs) {
  batcher_.SetKnobs(knobs);
  Settle();
}

void Runtime::ArmTimer() {
  if (timer_armed_) return;
  const std::optional<absl::Time> due = batcher_.NextDue();
  if (!due.has_value()) return;
  if (environment_.timers == nullptr) return batcher_.FlushAll();
  timer_armed_ = true;
  environment_.timers->After(*due - environment_.clock->Now(), environment_.strand, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    timer_armed_ = false;
    batcher_.FlushDue();
    Settle();
  });
}

// ---- out ----

void Runtime::SendTuple(HostId to, bool critical, const TupleMessage& message) {
  if (lost_.contains(to)) return;
  ++counters_.tuples_sent;
  batcher_.Add(to, critical, message);
}

void Runtime::SendReport(HostId to, bool critical, const ReportMessage& message) {
  if (lost_.contains(to)) return;
  ++counters_.reports_sent;
  batcher_.Add(to, critical, message);
}

LinkFlow& Runtime::FlowTo(HostId host) { return flows_.try_emplace(host, knobs_.flow).first->second; }

bool Runtime::HasRoom(HostId to, bool critical) {
  if (to == environment_.self) {
    if (local_bytes_ < knobs_.local_high_water_bytes) return true;
    local_full_ = true;
    return false;
  }
  if (lost_.contains(to)) return true;  // nothing is queued for it
  LinkFlow& flow = FlowTo(to);
  if (flow.waiting_bytes(critical) + batcher_.waiting_bytes(to, critical) < knobs_.flow.high_water_bytes) return true;
  flow.someone_waits[critical] = true;
  return false;
}

absl::Status Runtime::CheckRoom(HostId to, bool critical) {
  if (lost_.contains(to)) return absl::OkStatus();
  const bool local = to == environment_.self;
  const size_t waiting = local ? local_bytes_ : FlowTo(to).waiting_bytes(critical) + batcher_.waiting_bytes(to, critical);
  const size_t limit = local ? knobs_.local_hard_limit_bytes : knobs_.flow.hard_limit_bytes;
  if (waiting < limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(waiting, " bytes wait for ", ToString(to), ", and the limit is ", limit,
                                                   "; an operator must stop where CanSend says so"));
}

void Runtime::Queued(RunId run, size_t bytes) {
  local_bytes_ += bytes;
  if (bytes > 0) ++counters_.tuples_local;
  if (is_ready_.insert(run).second) ready_.push_back(run);
}

void Runtime::Unqueued(size_t bytes) {
  local_bytes_ -= bytes;
  if (!local_full_ || local_bytes_ > knobs_.local_high_water_bytes / 2) return;
  local_full_ = false;
  room_changed_ = true;
}

void Runtime::Emit(HostId to, bool critical, FrameBuilder frame) {
  if (lost_.contains(to)) return;
  FlowTo(to).Push(critical, std::move(frame));
  Pump(to, critical);
}

void Runtime::Pump(HostId to, bool critical) {
  LinkFlow& flow = FlowTo(to);
  while (std::optional<FrameBuilder> frame = flow.Pop(critical)) SendFrame(to, critical, *std::move(frame));
  if (!flow.someone_waits[critical] || flow.waiting_bytes(critical) > knobs_.flow.high_water_bytes / 2) return;
  flow.someone_waits[critical] = false;
  room_changed_ = true;
}

void Runtime::SendFrame(HostId to, bool critical, FrameBuilder frame) {
  LinkFlow& flow = FlowTo(to);
  const auto [owed_critical, owed_bulk] = flow.TakeOwed();
  frame.SetConsumed(owed_critical, owed_bulk);
  frame.SetCritical(critical);
  std::string header = frame.SerializeHeader();
  std::vector<Bytes> payload = frame.TakePayload();
  size_t bytes = header.size();
  for (const Bytes& piece : payload) bytes += piece.size();
  if (frame.tuples() > 0) flow.Sent(critical, bytes);
  ++counters_.frames_sent;
  counters_.bytes_sent += bytes;
  environment_.links->Send(to, std::move(header), std::move(payload), critical ? net::Lane::kUrgent : net::Lane::kBulk);
}

// ---- in ----

// Handles installs and starts at once, ahead of the local queues, so that starts keep their place among other messages (RT-5).
void Runtime::OnFrame(HostId from, net::Frame frame) {
  if (lost_.contains(from)) return;
  absl::StatusOr<FrameContents> contents = ParseFrame(frame);
  if (!contents.ok()) return environment_.links->Disconnect(from, contents.status());
  const bool outer = std::exchange(busy_, true);
  for (InstallMessage& message : contents->installs) TakeInstall(from, message);
  for (StartMessage& message : contents->starts) TakeStart(from, message);
  busy_ = outer;
  inbound_.push_back({from, *std::move(contents), frame.header.size() + frame.payload.size()});
  Settle();
}

void Runtime::Take(Inbound frame) {
  const HostId from = frame.from;
  FrameContents* const contents = &frame.contents;
  if (lost_.contains(from)) return;
  FlowTo(from).TakenIn(true, contents->consumed_urgent);
  FlowTo(from).TakenIn(false, contents->consumed_bulk);
  Pump(from, true);
  Pump(from, false);
  size_t held_back = 0;  // of the frame's credit
  for (TupleMessage& message : contents->tuples) held_back += TakeTuple(from, contents->critical, std::move(message));
  for (ReportMessage& message : contents->reports) TakeReport(from, std::move(message));
  for (const BrokenMessage& message : contents->broken) TakeBroken(from, message);
  for (const LostMessage& message : contents->lost) TakeLost(from, message);
  for (const EndMessage& message : contents->ends) TakeEnd(from, message);
  for (uint64_t graph : contents->uninstalls) graphs_.erase({from, graph});
  if (contents->tuples.empty()) return;
  Return(from, contents->critical, frame.bytes - std::min(held_back, frame.bytes));
}

// Returns credit to a sender.
void Runtime::Return(HostId to, bool critical, size_t bytes) {
  LinkFlow& flow = FlowTo(to);
  flow.Consumed(critical, bytes);
  if (flow.OwesMuch()) SendFrame(to, true, FrameBuilder());
}

namespace {
size_t SizeOf(const TupleMessage& message) { return message.tuple.size() + message.tuple.error.message().size(); }
size_t SizeOf(const ReportMessage& message) {
  return message.report.counts.stretches().size() * sizeof(Counts::Stretch) + message.report.poisons.size() * sizeof(Poison);
}
}  // namespace

// Returns the run of a message; null if the message is early, or late (IsLate).
Run* Runtime::RunOf(RunId id) const {
  const auto it = runs_.find(id);
  return it == runs_.end() ? nullptr : it->second.get();
}

// Returns the credit that is held back until the run starts.
size_t Runtime::TakeTuple(HostId from, bool critical, TupleMessage message) {
  const RunId id = message.run;
  if (RunOf(id) != nullptr) {
    TakeForRun(from, std::move(message));
    return 0;
  }
  if (IsLate(id)) return 0;
  const size_t bytes = SizeOf(message);
  return early_.Add(from, critical, std::move(message), bytes);
}

void Runtime::TakeReport(HostId from, ReportMessage message) {
  const RunId id = message.run;
  if (RunOf(id) != nullptr) return TakeForRun(from, std::move(message));
  if (IsLate(id)) return;
  const size_t bytes = SizeOf(message);
  early_.Add(from, std::move(message), bytes);
}

// Hands a message to its run, unless that is over.
template <class Message>
void Runtime::TakeForRun(HostId from, Message message) {
  const RunId id = message.run;
  Run* const run = RunOf(id);
  if (run == nullptr) return;
  if (absl::Status status = HandTo(run, from, std::move(message)); !status.ok()) return Violated(id, from, status);
  EndIfOver(id);
}

template void Runtime::TakeForRun(HostId, TupleMessage);
template void Runtime::TakeForRun(HostId, ReportMessage);

}  // namespace pw::dataflow
