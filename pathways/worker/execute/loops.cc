#include "pathways/worker/execute/loops.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/program/program.h"
#include "pathways/worker/execute/read_value.h"

namespace pw::worker {
namespace v1 = pathways::v1;

struct Loops::LeaseState {
  v1::LoopLease message;
  uint64_t begun = 0;  // turns
  size_t running = 0;  // turns whose commands are not all complete
  bool closed = false;
  bool answered = false;
  bool traced = false;  // it came while a trace was recorded
  double device_microseconds = 0;
  absl::Time second, latest;  // when these turns began here. The first may have waited for the lease's grant

  bool has_room() const { return begun < message.turns(); }
  // The time from the second turn to the latest one.
  double measured_microseconds() const { return begun < 3 ? 0 : absl::ToDoubleMicroseconds(latest - second); }
};

struct Loops::Loop {
  Loop(const WorkerContext* context, DeviceArrays* arrays) : predicate(context, arrays) {}

  v1::BeginLoop message;
  SessionId session;
  std::shared_ptr<const dataflow::GraphPart> part;
  HostId leader;
  std::map<uint32_t, uint64_t> carry;  // the names of the carried arrays here, by number
  std::vector<uint64_t> constants;     // of each argument that is no carried array; 0 for those
  std::vector<bool> taken;             // by number: the turn's graph releases it
  uint64_t decided = 0;                // turns in all
  uint64_t begun = 0;
  size_t running = 0;           // turns
  bool ended = false;           // no turn follows those that are decided
  absl::Status status;          // of the end
  absl::Status failure;         // that this host has told
  absl::Status refused;         // no lease will come: no more turns begin
  std::deque<LeaseRef> leases;  // that are not answered
  ValueReader predicate;        // of this host, if it is the leader
  bool advancing = false;
  bool finished = false;                                    // its expected arrays have been fulfilled
  size_t unsettled = 0;                                     // of these
  std::vector<std::pair<uint32_t, absl::Status>> poisoned;  // of these, by position

  uint64_t stride() const { return message.carries() + 1 + message.names(); }
  std::string Place(uint64_t turn) const {
    return absl::StrCat(message.location(), message.location().empty() ? "" : ", ", "turn ", turn);
  }
};

Loops::Loops(RunContext of) : of_(std::move(of)) { of_.frames->SetTurnReceiver(this); }

Loops::~Loops() { of_.frames->SetTurnReceiver(nullptr); }

//---- commands

void Loops::Handle(const v1::Command& command) {
  if (command.has_begin_loop()) Begin(command.begin_loop());
  if (command.has_loop_lease()) Lease(command.loop_lease());
}

void Loops::Begin(const v1::BeginLoop& command) {
  auto loop = std::make_shared<Loop>(of_.context, of_.arrays);
  loop->message = command;
  loop->session = SessionOr(command.session(), command.op());
  loop->leader = HostId(command.leader());
  absl::Status status = Check(command);
  if (!status.ok()) {
    loop->message.clear_arguments();
    loop->message.clear_results();
  } else if (loop->part = of_.find_part(command.graph()); loop->part == nullptr) {
    status = absl::FailedPreconditionError(
        absl::StrCat("the turns of a loop are graph ", command.graph(), ", which this host does not have"));
  } else {
    TakeInputs(*loop);
  }
  loops_[command.op()] = loop;
  if (!status.ok()) {
    loop->refused = status;
    Fail(loop, status);
  }
  TakeEarly(loop);
  if (loop->leader == of_.context->self() && !loop->ended) AwaitPredicate(loop, ArrayId(command.predicate()));
  Advance(loop);
}

absl::Status Loops::Check(const v1::BeginLoop& command) const {
  if (command.carries() > kMostCarried || command.names() > RequestName::kMostCounts)
    return absl::InvalidArgumentError("a loop has too many arrays");
  std::vector<bool> here(command.carries());
  for (const auto& carried : command.carried()) {
    if (carried.number() >= command.carries() || here[carried.number()])
      return absl::InvalidArgumentError(absl::StrCat("a loop has no carried array ", carried.number(), ", or twice"));
    here[carried.number()] = true;
  }
  for (const auto& argument : command.arguments()) {
    if (argument.has_carried() && (argument.carried() >= command.carries() || !here[argument.carried()]))
      return absl::InvalidArgumentError(absl::StrCat("carried array ", argument.carried(), " of a loop is not on this host"));
  }
  for (uint32_t result : command.results()) {
    if (result > command.carries() || (result < command.carries() && !here[result]))
      return absl::InvalidArgumentError(absl::StrCat("result ", result, " of a turn is not on this host"));
  }
  const uint64_t names = 2 * uint64_t{command.carries()} + command.arguments_size();
  if (!RequestName::HasRoom(command.base(), std::max<uint64_t>(names, 1) - 1))
    return absl::InvalidArgumentError("a loop has no names for its inputs");
  return absl::OkStatus();
}

// Gives the inputs names of the loop's own: their other names may go while the loop runs.
void Loops::TakeInputs(Loop& loop) {
  const v1::BeginLoop& message = loop.message;
  ObjectStore& store = of_.arrays->store();
  loop.taken.resize(message.carries());
  const auto name = [&](uint64_t k) { return message.base() + k * RequestName::kStep; };
  for (const auto& carried : message.carried()) {
    loop.carry[carried.number()] = name(carried.number());
    store.Alias(ArrayId(carried.initial()), ArrayId(name(carried.number())), loop.session);
    store.Alias(ArrayId(carried.initial()), ArrayId(name(message.carries() + carried.number())), loop.session);
  }
  for (int k = 0; k < message.arguments_size(); ++k) {
    const auto& argument = message.arguments(k);
    loop.constants.push_back(argument.has_carried() ? 0 : name(2 * uint64_t{message.carries()} + static_cast<uint64_t>(k)));
    if (argument.has_carried())
      loop.taken[argument.carried()] = true;
    else
      store.Alias(ArrayId(argument.constant()), ArrayId(loop.constants.back()), loop.session);
  }
}

void Loops::Lease(const v1::LoopLease& command) {
  const auto it = loops_.find(command.loop());
  const LoopRef loop = it == loops_.end() || it->second->finished ? nullptr : it->second;
  if (loop == nullptr) return of_.context->outbox().Done(command.op(), absl::OkStatus());  // it has ended
  absl::Status status = command.has_refused() ? FromProto(command.refused()) : CheckLease(*loop, command);
  if (!status.ok()) {
    loop->refused.Update(status);
    of_.context->outbox().Done(command.op(), status);
  } else {
    auto lease = std::make_shared<LeaseState>();
    lease->message = command;
    lease->traced = of_.context->recorder().on();
    loop->leases.push_back(lease);
    if (command.op() != 0)
      of_.order->OpenLease(command.gang(), command.granted(), loop->session,
                           {command.devices().begin(), command.devices().end()});
  }
  Advance(loop);
}

absl::Status Loops::CheckLease(const Loop& loop, const v1::LoopLease& command) const {
  const auto devices = static_cast<int32_t>(of_.arrays->runtime()->devices().size());
  for (int32_t device : command.devices()) {
    if (device < 0 || device >= devices)
      return absl::InvalidArgumentError(absl::StrCat("there is no local device ", device, "; this host has ", devices));
  }
  const uint64_t most = RequestName::kMostCounts / loop.stride();
  if (command.turns() == 0 || command.turns() > most ||
      !RequestName::HasRoom(command.base(), command.turns() * loop.stride() - 1))
    return absl::InvalidArgumentError(absl::StrCat("a lease of ", command.turns(), " turns has no names for their arrays"));
  return absl::OkStatus();
}

//---- decisions

void Loops::AwaitPredicate(const LoopRef& loop, ArrayId array) {
  loop->predicate.Read(array, 1, "the predicate of a loop",
                       [this, waiting = std::weak_ptr<Loop>(loop)](const absl::StatusOr<Bytes>& bytes) {
                         const LoopRef live = waiting.lock();
                         if (live == nullptr) return;
                         if (!bytes.ok()) return Decide(live, bytes.status());
                         Decide(live, bytes->view()[0] != 0);
                       });
}

void Loops::Decide(const LoopRef& loop, const absl::StatusOr<bool>& follows) {
  if (loop->ended) return;
  if (!follows.ok()) return End(loop, follows.status());
  if (!*follows) return End(loop, absl::OkStatus());
  ++loop->decided;
  Tell(*loop);
  Advance(loop);
}

// REQUIRES: this host is the leader.
void Loops::Tell(const Loop& loop) {
  if (of_.context->recorder().on()) {
    of_.context->recorder().Instant(trace::Kind::kGrant, "loops",
                                    loop.ended ? "the loop ends" : absl::StrCat("turn ", loop.decided, " follows"),
                                    {.flow = loop.message.op(), .session = loop.session.v});
  }
  v1::LoopTurn turn;
  turn.set_loop(loop.message.op());
  turn.set_turns(loop.decided);
  turn.set_ended(loop.ended);
  if (!loop.status.ok()) *turn.mutable_status() = ToProto(loop.status);
  for (uint32_t host : loop.message.hosts()) {
    if (HostId(host) != of_.context->self()) of_.frames->SendTurn(HostId(host), turn);
  }
}

// A turn has failed here.
void Loops::Fail(const LoopRef& loop, const absl::Status& error) {
  if (loop->ended || !loop->failure.ok()) return;
  loop->failure = error;
  if (loop->leader == of_.context->self()) return End(loop, error);
  v1::LoopTurn turn;
  turn.set_loop(loop->message.op());
  *turn.mutable_status() = ToProto(error);
  of_.frames->SendTurn(loop->leader, turn);
}

// Ends the loop on all hosts. REQUIRES: this host is the leader.
void Loops::End(const LoopRef& loop, const absl::Status& status) {
  loop->ended = true;
  loop->predicate.Cancel();
  loop->status = program::WithLocation(status, loop->Place(loop->decided));
  Tell(*loop);
  Advance(loop);
}

// Ends the loop on this host alone.
void Loops::Abandon(const LoopRef& loop, const absl::Status& status) {
  if (loop->ended && loop->begun == loop->decided) return;  // only its commands are under way
  loop->ended = true;
  loop->predicate.Cancel();
  loop->status.Update(program::WithLocation(status, loop->Place(loop->begun)));
  loop->decided = loop->begun;
  Advance(loop);
}

void Loops::OnTurn(HostId from, const v1::LoopTurn& turn) {
  const auto it = loops_.find(turn.loop());
  if (it == loops_.end()) return Keep(from, turn);
  const LoopRef loop = it->second;
  if (loop->ended) return;
  const auto& hosts = loop->message.hosts();
  const absl::Status status = FromProto(turn.status());
  if (loop->leader == of_.context->self()) {
    if (!status.ok() && std::count(hosts.begin(), hosts.end(), from.v) > 0) Fail(loop, status);
    return;
  }
  if (from != loop->leader) return;
  loop->decided = std::max(loop->decided, turn.turns());
  loop->ended = turn.ended();
  if (loop->ended) loop->status = status;
  Advance(loop);
}

// Keeps a message that has come before the loop's command.
void Loops::Keep(HostId from, const v1::LoopTurn& turn) {
  const SessionId session = SessionOfName(turn.loop());
  if (session == SessionId() || of_.context->ended(session) || of_.context->had().Has(HadCommands::Kind::kOp, turn.loop()))
    return;
  if (early_.size() >= kMostEarly && !early_.contains(turn.loop())) early_.erase(early_.begin());
  Early& early = early_[turn.loop()];
  if (turn.has_status() && !turn.ended()) {
    early.failure.Update(FromProto(turn.status()));
  } else if (turn.ended() || turn.turns() > early.turn.turns()) {
    early.from = from;
    early.turn = turn;
  }
}

void Loops::TakeEarly(const LoopRef& loop) {
  const auto it = early_.find(loop->message.op());
  if (it == early_.end()) return;
  const Early early = std::move(it->second);
  early_.erase(it);
  if (loop->leader == of_.context->self()) {
    if (!early.failure.ok()) Fail(loop, early.failure);
  } else if (early.turn.loop() != 0) {
    OnTurn(early.from, early.turn);
  }
}

void Loops::OnHostGone(HostId host, const absl::Status& status) {
  for (uint64_t op : SortedKeys(loops_)) {
    const auto it = loops_.find(op);
    if (it == loops_.end()) continue;
    const LoopRef loop = it->second;
    const auto& hosts = loop->message.hosts();
    if (std::count(hosts.begin(), hosts.end(), host.v) == 0) continue;
    if (loop->leader == of_.context->self() && !loop->ended)
      End(loop, status);
    else if (host == loop->leader)
      Abandon(loop, status);
  }
}

void Loops::ReleaseOwner(SessionId session) {
  for (uint64_t op : SortedKeysWhere(loops_, [session](const LoopRef& loop) { return loop->session == session; }))
    Abandon(LoopRef(loops_.at(op)), absl::CancelledError("the client has gone, and its loop with it"));
  std::erase_if(early_, [session](const auto& early) { return SessionOfName(early.first) == session; });
}

//---- turns

void Loops::Advance(const LoopRef& loop) {
  if (std::exchange(loop->advancing, true)) return;
  while (loop->begun < loop->decided) {
    if (!loop->refused.ok()) {  // so it is on all hosts, from the same turn on
      Fail(loop, loop->refused);
      loop->begun = loop->decided;
    } else if (const LeaseRef lease = LeaseWithRoom(*loop); lease != nullptr) {
      BeginTurn(loop, lease);
    } else {
      break;
    }
  }
  loop->advancing = false;
  if (loop->ended && loop->begun == loop->decided && !loop->finished) Finish(loop);
}

Loops::LeaseRef Loops::LeaseWithRoom(Loop& loop) {
  for (const LeaseRef& lease : loop.leases) {
    if (lease->has_room()) return lease;
  }
  return nullptr;
}

void Loops::BeginTurn(const LoopRef& loop, const LeaseRef& lease) {
  Loop& of = *loop;
  ObjectStore& store = of_.arrays->store();
  const uint64_t first = lease->message.base() + lease->begun * of.stride() * RequestName::kStep;
  const uint64_t predicate = first + of.message.carries() * RequestName::kStep;
  v1::ProgramRun run = Bind(of, *lease, first);
  ++lease->begun;
  ++lease->running;
  ++of.begun;
  ++of.running;
  lease->latest = of_.context->clock()->Now();
  if (lease->begun == 2) lease->second = lease->latest;
  if (of_.context->recorder().on()) {
    of_.context->recorder().Instant(trace::Kind::kPrepare, "loops", absl::StrCat("turn ", of.begun),
                                    {.flow = of.message.op(), .gang = lease->message.gang(), .session = of.session.v});
  }
  of_.nodes->Run(
      *of.part, std::move(run), absl::StrCat("turn ", of.begun),
      [this, loop, lease](const absl::Status& error, double microseconds) { EndTurn(loop, lease, error, microseconds); });
  const bool is_first = of.begun == 1;
  for (auto& [number, name] : of.carry) {
    if (!of.taken[number]) store.Release(ArrayId(name));
    if (is_first) store.Release(ArrayId(of.message.base() + (of.message.carries() + number) * RequestName::kStep));
    name = first + number * RequestName::kStep;
  }
  if (!lease->has_room()) Close(*lease);
  AnswerIfOver(of, *lease);
  if (of.leader != of_.context->self()) return;
  AwaitPredicate(loop, ArrayId(predicate));
  store.Release(ArrayId(predicate));
}

// Returns the run of the next turn. `first_name`: the number of the turn's first name.
v1::ProgramRun Loops::Bind(Loop& loop, const LeaseState& lease, uint64_t first_name) {
  v1::ProgramRun run;
  run.set_session(loop.session.v);
  run.set_base(first_name + (uint64_t{loop.message.carries()} + 1) * RequestName::kStep);
  run.set_grant(lease.message.gang());
  if (lease.traced) run.set_gang(lease.message.gang());
  if (lease.message.launches() != 0) run.set_launches(lease.message.launches() + lease.begun * loop.message.names());
  for (int k = 0; k < loop.message.arguments_size(); ++k) {
    const auto& argument = loop.message.arguments(k);
    run.add_args(argument.has_carried() ? loop.carry.at(argument.carried()) : loop.constants[static_cast<size_t>(k)]);
  }
  for (uint32_t result : loop.message.results()) run.add_results(first_name + result * RequestName::kStep);
  return run;
}

void Loops::EndTurn(const LoopRef& loop, const LeaseRef& lease, const absl::Status& error, double device_microseconds) {
  --loop->running;
  --lease->running;
  lease->device_microseconds += device_microseconds;
  if (!error.ok()) Fail(loop, error);
  AnswerIfOver(*loop, *lease);
  AnswerIfOver(loop);
}

void Loops::Close(LeaseState& lease) {
  if (std::exchange(lease.closed, true) || lease.message.op() == 0) return;
  of_.order->CloseLease(lease.message.gang());
}

// The leases of a loop that has ended are answered after the loop.
void Loops::AnswerIfOver(Loop& loop, LeaseState& lease) {
  if (!lease.closed || lease.running > 0 || loop.ended) return;
  Answer(loop, lease);
  while (!loop.leases.empty() && loop.leases.front()->answered) loop.leases.pop_front();
}

void Loops::Answer(const Loop& loop, LeaseState& lease) {
  if (std::exchange(lease.answered, true) || lease.message.op() == 0) return;
  // Between turns, too, nobody else has the devices.
  const auto devices = static_cast<double>(std::max(lease.message.devices_size(), 1));
  const double busy = std::max(lease.device_microseconds, lease.measured_microseconds() * devices);
  if (loop.leader != of_.context->self() || lease.begun == 0)
    return of_.context->outbox().Done(lease.message.op(), absl::OkStatus(), busy);
  const double turn = lease.begun < 3 ? 0 : lease.measured_microseconds() / static_cast<double>(lease.begun - 2);
  const double working = lease.device_microseconds / devices / static_cast<double>(lease.begun);
  of_.context->outbox().DoneTimed(lease.message.op(), std::max(turn, working), busy);
}

//---- ends

void Loops::Finish(const LoopRef& loop) {
  loop->finished = true;
  for (const LeaseRef& lease : loop->leases) Close(*lease);
  const v1::BeginLoop& message = loop->message;
  ObjectStore& store = of_.arrays->store();
  loop->unsettled = 1;
  for (int r = 0; r < message.carried_size(); ++r) {
    const auto& carried = message.carried(r);
    const auto at = loop->carry.find(carried.number());
    v1::Fulfil fulfil;
    fulfil.set_session(loop->session.v);
    fulfil.set_array(carried.result());
    if (loop->status.ok() && at != loop->carry.end())
      fulfil.set_source(at->second);
    else
      *fulfil.mutable_status() = ToProto(loop->status);
    ++loop->unsettled;
    of_.expectations->Fulfil(fulfil, [this, alive = of_.context->alive(), loop, r](const absl::Status& status) {
      if (!status.ok()) loop->poisoned.emplace_back(static_cast<uint32_t>(r), status);
      --loop->unsettled;
      if (!alive.expired()) AnswerIfOver(loop);
    });
    if (at == loop->carry.end()) continue;
    store.Release(ArrayId(at->second));  // Fulfil has released its source
    if (loop->begun == 0) store.Release(ArrayId(message.base() + (message.carries() + carried.number()) * RequestName::kStep));
  }
  for (uint64_t constant : loop->constants) {
    if (constant != 0) store.Release(ArrayId(constant));
  }
  --loop->unsettled;
  AnswerIfOver(loop);
}

void Loops::AnswerIfOver(const LoopRef& loop) {
  if (!loop->finished || loop->running > 0 || loop->unsettled > 0) return;
  const uint64_t op = loop->message.op();
  if (const auto it = loops_.find(op); it == loops_.end() || it->second != loop) return;
  loops_.erase(op);
  Outbox& outbox = of_.context->outbox();
  for (const auto& [result, status] : loop->poisoned) outbox.Poisoned(op, status, {result});
  if (loop->poisoned.empty() && !loop->status.ok()) outbox.Poisoned(op, loop->status, {});
  outbox.Done(op, absl::OkStatus());
  for (const LeaseRef& lease : std::exchange(loop->leases, {})) Answer(*loop, *lease);
}

}  // namespace pw::worker
