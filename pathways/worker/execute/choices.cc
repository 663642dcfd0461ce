#include "pathways/worker/execute/choices.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/program.h"
#include "pathways/worker/execute/read_value.h"

namespace pw::worker {
namespace v1 = pathways::v1;

struct Choices::Choice {
  Choice(const v1::BeginChoice& command, const WorkerContext* context, DeviceArrays* arrays)
      : message(command), session(SessionOr(command.session(), command.op())), index(context, arrays) {}

  const v1::BeginChoice message;
  const SessionId session;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const dataflow::GraphPart>> parts;  // by the number of the graph
  std::map<uint32_t, HostId> leaders;                                               // by the number of the Choose
  std::map<uint32_t, std::string> locations;
  absl::flat_hash_map<uint32_t, Decision> decisions;
  std::map<HostId, absl::Status> gone;
  std::map<uint32_t, std::set<HostId>> askers;        // hosts that have lost a leader, and asked this one
  std::map<uint32_t, std::set<HostId>> have_lost;     // that have lost a leader too, without its decision
  std::vector<std::pair<const v1::Script*, int>> at;  // the scripts that are under way, with the next step of each
  std::optional<uint32_t> reading;                    // the Choose whose index this host reads
  ValueReader index;
  std::vector<uint32_t> made;  // slots with arrays
  bool traced = false;         // it came while a trace was recorded
  bool advancing = false;
  bool finished = false;  // all steps have been dispatched
  size_t running = 0;     // parts whose commands are not all complete
  size_t unsettled = 0;   // expected arrays
  double device_microseconds = 0;
  absl::Status failed;                                      // the first error of a part
  std::vector<std::pair<uint32_t, absl::Status>> poisoned;  // outputs, by position

  uint64_t name(uint32_t slot) const { return message.base() + slot * RequestName::kStep; }
  bool has(HostId host) const {
    const auto& hosts = message.hosts();
    return std::count(hosts.begin(), hosts.end(), host.v) > 0;
  }
};

Choices::Choices(RunContext of) : of_(std::move(of)) { of_.frames->SetBranchReceiver(this); }

Choices::~Choices() { of_.frames->SetBranchReceiver(nullptr); }

//---- commands

void Choices::Begin(const v1::BeginChoice& command) {
  const auto choice = std::make_shared<Choice>(command, of_.context, of_.arrays);
  choice->traced = of_.context->recorder().on();
  choices_[command.op()] = choice;
  absl::Status status = Check(command);
  if (status.ok()) status = Examine(*choice, choice->message.script());
  if (!status.ok()) return Refuse(choice, status);
  if (command.devices_size() > 0)
    of_.order->OpenLease(command.gang(), command.granted(), choice->session,
                         {command.devices().begin(), command.devices().end()});
  TakeInputs(*choice);
  choice->at.emplace_back(&choice->message.script(), 0);
  TakeEarly(choice);
  Advance(choice);
}

absl::Status Choices::Check(const v1::BeginChoice& command) const {
  const auto devices = static_cast<int32_t>(of_.arrays->runtime()->devices().size());
  for (int32_t device : command.devices()) {
    if (device < 0 || device >= devices)
      return absl::InvalidArgumentError(absl::StrCat("there is no local device ", device, "; this host has ", devices));
  }
  if (command.devices_size() > 0 && command.gang() == 0)
    return absl::InvalidArgumentError("a choice has devices, and no place in their order");
  if (command.slots() == 0 || command.slots() > kMostSlots || !RequestName::HasRoom(command.base(), command.slots() - 1))
    return absl::InvalidArgumentError(absl::StrCat("a choice has no names for ", command.slots(), " slots"));
  for (const auto* arrays : {&command.inputs(), &command.outputs()}) {
    for (const auto& array : *arrays) {
      if (array.slot() >= command.slots()) return absl::InvalidArgumentError(absl::StrCat("a choice has no slot ", array.slot()));
    }
  }
  return absl::OkStatus();
}

// Checks a script, and finds its graphs and leaders.
absl::Status Choices::Examine(Choice& choice, const v1::Script& script) const {
  const uint32_t slots = choice.message.slots();
  for (const auto& step : script.steps()) {
    if (step.has_choose()) {
      PW_RETURN_IF_ERROR(ExamineChoose(choice, step.choose()));
      continue;
    }
    const v1::Script::Part& part = step.part();
    for (const auto* of : {&part.args(), &part.results()}) {
      if (std::any_of(of->begin(), of->end(), [&](uint32_t slot) { return slot >= slots; }))
        return absl::InvalidArgumentError("a part of a branch has a slot that its choice does not have");
    }
    auto found = of_.find_part(part.graph());
    if (found == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("a part of a branch is graph ", part.graph(), ", which this host does not have"));
    }
    choice.parts[part.graph()] = std::move(found);
  }
  return absl::OkStatus();
}

absl::Status Choices::ExamineChoose(Choice& choice, const v1::Script::Choose& choose) const {
  const uint32_t slots = choice.message.slots();
  const auto& outputs = choose.outputs();
  if (choose.branches_size() == 0 || choose.index() >= slots ||
      std::any_of(outputs.begin(), outputs.end(), [&](uint32_t slot) { return slot >= slots; })) {
    return absl::InvalidArgumentError("a choice has no branches, or a slot that does not exist");
  }
  if (!choice.leaders.try_emplace(choose.number(), HostId(choose.leader())).second || !choice.has(HostId(choose.leader())))
    return absl::InvalidArgumentError(absl::StrCat("choice ", choose.number(), " is there twice, or none of its hosts decides"));
  choice.locations[choose.number()] = choose.location();
  for (const v1::Script& branch : choose.branches()) PW_RETURN_IF_ERROR(Examine(choice, branch));
  return absl::OkStatus();
}

void Choices::TakeInputs(Choice& choice) {
  for (const auto& input : choice.message.inputs()) {
    of_.arrays->store().Alias(ArrayId(input.array()), ArrayId(choice.name(input.slot())), choice.session);
    choice.made.push_back(input.slot());
  }
}

// This host takes no part: its outputs fail, and what it was to decide fails on all hosts.
void Choices::Refuse(const ChoiceRef& choice, const absl::Status& status) {
  for (const auto& [number, leader] : choice->leaders) {
    if (leader == of_.context->self()) Tell(*choice, number, {0, status});
  }
  early_.erase(choice->message.op());
  choice->failed = status;
  Finish(choice, status);
}

void Choices::ReleaseOwner(SessionId session) {
  for (uint64_t op : SortedKeysWhere(choices_, [session](const ChoiceRef& choice) { return choice->session == session; })) {
    const ChoiceRef choice = choices_.at(op);
    choice->at.clear();
    choice->index.Cancel();
    if (!choice->finished) Finish(choice, absl::CancelledError("the client has gone, and its choice with it"));
  }
  std::erase_if(early_, [session](const auto& early) { return SessionOfName(early.first) == session; });
}

//---- decisions

void Choices::OnBranch(HostId from, const v1::BranchChosen& chosen) {
  const auto it = choices_.find(chosen.choice());
  if (it == choices_.end()) return Keep(from, chosen);
  const ChoiceRef choice = it->second;
  Hear(*choice, from, chosen);
  Advance(choice);
}

// Keeps a decision that has come before the choice's command.
void Choices::Keep(HostId from, const v1::BranchChosen& chosen) {
  const SessionId session = SessionOfName(chosen.choice());
  if (session == SessionId() || of_.context->ended(session)) return;
  if (of_.context->had().Has(HadCommands::Kind::kOp, chosen.choice())) {  // it has ended here
    if (chosen.what() != v1::BranchChosen::QUESTION) return;
    v1::BranchChosen answer;
    answer.set_choice(chosen.choice());
    answer.set_number(chosen.number());
    answer.set_what(v1::BranchChosen::LOST);
    return of_.frames->SendBranch(from, answer);
  }
  size_t kept = 0;
  for (const auto& [op, heard] : early_) kept += heard.size();
  if (kept >= kMostEarly) early_.erase(early_.begin());
  early_[chosen.choice()].emplace_back(from, chosen);
}

void Choices::TakeEarly(const ChoiceRef& choice) {
  const auto it = early_.find(choice->message.op());
  if (it == early_.end()) return;
  for (const auto& [from, chosen] : it->second) Hear(*choice, from, chosen);
  early_.erase(it);
}

void Choices::Hear(Choice& choice, HostId from, const v1::BranchChosen& chosen) {
  const auto leader = choice.leaders.find(chosen.number());
  if (leader == choice.leaders.end() || !choice.has(from) || from == of_.context->self()) return;
  if (chosen.what() == v1::BranchChosen::QUESTION) return Answer(choice, from, chosen.number());
  if (chosen.what() == v1::BranchChosen::LOST) {
    choice.have_lost[chosen.number()].insert(from);
    return GiveUpIfAllLost(choice, chosen.number());
  }
  if (from != leader->second && !choice.gone.contains(leader->second)) return;
  Settle(choice, chosen.number(), {chosen.branch(), FromProto(chosen.status())});
}

// The decision is known, and passed on to those that have asked for it.
void Choices::Settle(Choice& choice, uint32_t number, Decision decision) {
  if (!choice.decisions.try_emplace(number, std::move(decision)).second) return;
  const auto askers = choice.askers.find(number);
  if (askers == choice.askers.end()) return;
  for (HostId asker : std::exchange(askers->second, {})) Answer(choice, asker, number);
}

void Choices::Answer(Choice& choice, HostId asker, uint32_t number) {
  const auto decision = choice.decisions.find(number);
  if (decision != choice.decisions.end()) return TellOne(choice, asker, number, decision->second);
  if (choice.gone.contains(choice.leaders.at(number))) return Say(choice, asker, number, v1::BranchChosen::LOST);
  choice.askers[number].insert(asker);
}

// The leader has gone, and this host does not know the decision.
void Choices::Ask(Choice& choice, uint32_t number) {
  for (HostId asker : std::exchange(choice.askers[number], {})) Say(choice, asker, number, v1::BranchChosen::LOST);
  for (uint32_t host : choice.message.hosts()) {
    if (HostId(host) != of_.context->self() && !choice.gone.contains(HostId(host)))
      Say(choice, HostId(host), number, v1::BranchChosen::QUESTION);
  }
}

void Choices::GiveUpIfAllLost(Choice& choice, uint32_t number) {
  const auto gone = choice.gone.find(choice.leaders.at(number));
  if (gone == choice.gone.end() || choice.decisions.contains(number)) return;
  const std::set<HostId>& lost = choice.have_lost[number];
  for (uint32_t id : choice.message.hosts()) {
    const HostId host(id);
    if (host != of_.context->self() && !choice.gone.contains(host) && !lost.contains(host)) return;  // it will answer
  }
  Settle(choice, number, {0, program::WithLocation(gone->second, choice.locations.at(number))});
}

void Choices::Say(const Choice& choice, HostId to, uint32_t number, v1::BranchChosen::What what) const {
  v1::BranchChosen said;
  said.set_choice(choice.message.op());
  said.set_number(number);
  said.set_what(what);
  of_.frames->SendBranch(to, said);
}

void Choices::OnHostGone(HostId host, const absl::Status& status) {
  for (uint64_t op : SortedKeysWhere(choices_, [host](const ChoiceRef& choice) { return choice->has(host); })) {
    const auto it = choices_.find(op);
    if (it == choices_.end()) continue;
    const ChoiceRef choice = it->second;
    if (!choice->gone.try_emplace(host, status).second) continue;
    for (const auto& [number, leader] : choice->leaders) {
      if (leader == host && !choice->decisions.contains(number)) Ask(*choice, number);
    }
    for (const auto& [number, leader] : choice->leaders) GiveUpIfAllLost(*choice, number);
    Advance(choice);
  }
}

void Choices::ReadIndex(const ChoiceRef& choice, const v1::Script::Choose& choose) {
  if (choice->reading == choose.number()) return;
  choice->reading = choose.number();
  choice->index.Read(ArrayId(choice->name(choose.index())), sizeof(int32_t), "the index of a choice",
                     [this, waiting = std::weak_ptr<Choice>(choice), &choose](const absl::StatusOr<Bytes>& bytes) {
                       const ChoiceRef live = waiting.lock();
                       if (live == nullptr || live->finished) return;
                       if (bytes.ok()) {
                         int32_t index = 0;
                         std::memcpy(&index, bytes->data(), sizeof index);
                         Decide(*live, choose,
                                {static_cast<uint32_t>(std::clamp(index, 0, choose.branches_size() - 1)), absl::OkStatus()});
                       } else {
                         Decide(*live, choose, {0, program::WithLocation(bytes.status(), choose.location())});
                       }
                       Advance(live);
                     });
}

void Choices::Decide(Choice& choice, const v1::Script::Choose& choose, const Decision& decision) {
  if (of_.context->recorder().on()) {
    of_.context->recorder().Instant(
        trace::Kind::kGrant, "choices",
        decision.status.ok() ? absl::StrCat("branch ", decision.branch, " is chosen") : "no branch is chosen",
        {.flow = choice.message.op(), .gang = choice.message.gang(), .session = choice.session.v});
  }
  Tell(choice, choose.number(), decision);
  Settle(choice, choose.number(), decision);
}

void Choices::Tell(const Choice& choice, uint32_t number, const Decision& decision) {
  for (uint32_t host : choice.message.hosts()) {
    if (HostId(host) != of_.context->self()) TellOne(choice, HostId(host), number, decision);
  }
}

void Choices::TellOne(const Choice& choice, HostId to, uint32_t number, const Decision& decision) {
  v1::BranchChosen chosen;
  chosen.set_choice(choice.message.op());
  chosen.set_number(number);
  if (decision.status.ok())
    chosen.set_branch(decision.branch);
  else
    *chosen.mutable_status() = ToProto(decision.status);
  of_.frames->SendBranch(to, chosen);
}

//---- steps

void Choices::Advance(const ChoiceRef& choice) {
  if (choice->finished || std::exchange(choice->advancing, true)) return;
  bool goes_on = true;
  while (goes_on && !choice->at.empty()) {
    auto& [script, next] = choice->at.back();
    if (next == script->steps_size()) {
      choice->at.pop_back();
      continue;
    }
    const v1::Script::Step& step = script->steps(next);
    if (step.has_choose()) {
      goes_on = Follow(choice, step.choose());
    } else {
      ++next;
      RunPart(choice, step.part());
    }
  }
  choice->advancing = false;
  if (goes_on && !choice->finished) Finish(choice, absl::OkStatus());
}

bool Choices::Follow(const ChoiceRef& choice, const v1::Script::Choose& choose) {
  const HostId leader(choose.leader());
  if (!choice->decisions.contains(choose.number()) && leader == of_.context->self()) ReadIndex(choice, choose);
  const auto known = choice->decisions.find(choose.number());
  if (known == choice->decisions.end()) return false;
  const auto& [branch, status] = known->second;
  ++choice->at.back().second;
  if (status.ok() && branch < static_cast<uint32_t>(choose.branches_size())) {
    if (of_.context->recorder().on()) {
      of_.context->recorder().Instant(
          trace::Kind::kPrepare, "choices", absl::StrCat("branch ", branch),
          {.flow = choice->message.op(), .gang = choice->message.gang(), .session = choice->session.v});
    }
    choice->at.emplace_back(&choose.branches(static_cast<int>(branch)), 0);
    return true;
  }
  const absl::Status error = status.ok() ? absl::InvalidArgumentError("a choice has no such branch") : status;
  for (uint32_t slot : choose.outputs()) {
    of_.arrays->store().Poison(ArrayId(choice->name(slot)), error, choice->session);
    choice->made.push_back(slot);
  }
  choice->failed.Update(error);
  return true;
}

void Choices::RunPart(const ChoiceRef& choice, const v1::Script::Part& part) {
  const v1::BeginChoice& message = choice->message;
  v1::ProgramRun run;
  run.set_session(choice->session.v);
  run.set_base(choice->name(part.names()));
  run.set_grant(message.gang());
  if (choice->traced) run.set_gang(message.gang());
  if (message.launches() != 0) run.set_launches(message.launches() + part.names());
  for (uint32_t slot : part.args()) run.add_args(choice->name(slot));
  for (uint32_t slot : part.results()) {
    run.add_results(choice->name(slot));
    choice->made.push_back(slot);
  }
  ++choice->running;
  of_.nodes->Run(*choice->parts.at(part.graph()), std::move(run), "",
                 [this, choice](const absl::Status& error, double microseconds) { EndPart(choice, error, microseconds); });
}

void Choices::EndPart(const ChoiceRef& choice, const absl::Status& error, double device_microseconds) {
  --choice->running;
  choice->device_microseconds += device_microseconds;
  choice->failed.Update(error);
  AnswerIfOver(choice);
}

//---- ends

// No more steps follow. With an error, all outputs get it.
void Choices::Finish(const ChoiceRef& choice, const absl::Status& status) {
  choice->finished = true;
  const v1::BeginChoice& message = choice->message;
  if (message.devices_size() > 0) of_.order->CloseLease(message.gang());
  choice->unsettled = 1;
  for (int r = 0; r < message.outputs_size(); ++r) {
    v1::Fulfil fulfil;
    fulfil.set_session(choice->session.v);
    fulfil.set_array(message.outputs(r).array());
    if (status.ok())
      fulfil.set_source(choice->name(message.outputs(r).slot()));
    else
      *fulfil.mutable_status() = ToProto(status);
    ++choice->unsettled;
    of_.expectations->Fulfil(fulfil, [this, alive = of_.context->alive(), choice, r](const absl::Status& error) {
      if (!error.ok()) choice->poisoned.emplace_back(static_cast<uint32_t>(r), error);
      --choice->unsettled;
      if (!alive.expired()) AnswerIfOver(choice);
    });
  }
  for (uint32_t slot : choice->made) of_.arrays->store().Release(ArrayId(choice->name(slot)));
  choice->made.clear();
  --choice->unsettled;
  AnswerIfOver(choice);
}

void Choices::AnswerIfOver(const ChoiceRef& choice) {
  if (!choice->finished || choice->running > 0 || choice->unsettled > 0) return;
  const uint64_t op = choice->message.op();
  if (const auto it = choices_.find(op); it == choices_.end() || it->second != choice) return;
  choices_.erase(op);
  Outbox& outbox = of_.context->outbox();
  for (const auto& [result, status] : choice->poisoned) outbox.Poisoned(op, status, {result});
  if (choice->poisoned.empty() && !choice->failed.ok()) outbox.Poisoned(op, choice->failed, {});
  outbox.Done(op, absl::OkStatus(), choice->device_microseconds);
}

}  // namespace pw::worker
