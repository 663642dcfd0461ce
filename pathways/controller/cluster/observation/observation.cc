#include "pathways/controller/cluster/observation/observation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "pathways/base/log.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Examination;
using Launch = Examination::Launch;

constexpr absl::Duration kAnswerTime = absl::Seconds(1);
constexpr absl::Duration kUsageEvery = absl::Seconds(30);
constexpr int kMostProcesses = 8;  // of a host, whose stacks are kept
constexpr size_t kMostStackBytes = 64 << 10;
constexpr char kTheWorker[] = "the worker";  // as it names itself (worker/execute/stacks.cc)
constexpr char kNoAnswer[] = "does not answer";
constexpr char kNothing[] = "has not arrived there";

const char* Words(Launch::State state) {
  switch (state) {
    case Launch::COMPILING:
      return "waits for its program to be compiled";
    case Launch::NOT_GRANTED:
      return "arrived, its grant has not";
    case Launch::WAITS_FOR_INPUTS:
      return "arrived, waits for inputs";
    case Launch::WAITS_FOR_TURN:
      return "arrived, waits for its turn on the devices";
    case Launch::WAITS_FOR_MEMORY:
      return "arrived, waits for device memory";
    case Launch::LAUNCHED:
      return "launched, not finished";
    default:
      return "in a state that this controller does not know";
  }
}

// Returns the launch of this op; else, for a program of many nodes, the oldest launch of its client.
const Launch* FindLaunch(SessionId session, OpId op, const Examination& host) {
  const Launch* oldest = nullptr;
  for (const Launch& launch : host.launches()) {
    if (launch.op() == op.v) return &launch;
    if (oldest == nullptr && launch.session() == session.v) oldest = &launch;
  }
  return oldest;
}

// Indents text of a client's process, and removes what could pass for a line of a log or command a terminal.
std::string Quoted(absl::string_view text) {
  std::string quoted;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&quoted, "  ");
    for (const char c : line) quoted.push_back(absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c);
    quoted.push_back('\n');
  }
  return quoted;
}

std::string Seconds(absl::Duration duration) { return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration)); }

std::string TextOf(const HangStatus& hang) {
  const auto part = [](std::string* out, const HangStatus::Part& one) { absl::StrAppend(out, one.host, ": ", one.state); };
  return absl::StrCat("computation ", hang.gang, " of client ", hang.client.v,
                      hang.program.empty() ? "" : absl::StrCat(" (", hang.program, ")"),
                      " hangs: ", Seconds(absl::Seconds(hang.seconds)), " on its devices, ",
                      hang.predicted_seconds.has_value()
                          ? absl::StrCat("where ", Seconds(absl::Seconds(*hang.predicted_seconds)), " were predicted")
                          : std::string("in its first run"),
                      "; not finished: ", absl::StrJoin(hang.parts, ", ", part));
}

}  // namespace

std::string PartOf(SessionId session, OpId op, const Examination* host, std::string* program) {
  if (host == nullptr) return kNoAnswer;
  const Launch* launch = FindLaunch(session, op, *host);
  if (launch == nullptr) return kNothing;
  if (program->empty())
    *program = launch->location().empty() ? launch->program() : absl::StrCat(launch->program(), ", ", launch->location());
  return Words(launch->state());
}

Observation::Observation(const ClusterOptions& options, Fabric* fabric, Housekeeping* housekeeping, Clock* clock)
    : fabric_(fabric),
      housekeeping_(housekeeping),
      clock_(clock),
      watch_(options.hangs),
      store_usage_(options.store_usage),
      usage_stored_(clock->Now()) {}

void Observation::Note(std::string kind, std::string text, SessionId client) {
  events_.Add({clock_->Now(), std::move(kind), std::move(text), client});
}

void Observation::Tick(bool slept, absl::Span<SessionImpl* const> sessions) {
  const absl::Time now = clock_->Now();
  CountDone();
  if (now - usage_stored_ >= kUsageEvery) StoreUsage(sessions);
  LookAtGangs(now);
  if (slept) watch_.Forgive(now);
  if (asking_ || watch_.Suspects(now).empty()) return;
  asking_ = true;
  housekeeping_->GatherExaminations(kAnswerTime, [this, alive = std::weak_ptr<bool>(alive_)](Examinations examinations) {
    if (alive.expired()) return;
    asking_ = false;
    Judge(examinations);
  });
}

// Takes what has ended even if nobody stores it, so that it does not pile up.
void Observation::CountDone() {
  for (const auto& [session, done] : fabric_->gangs().TakeDone()) {
    const double seconds = done.device_microseconds * 1e-6;
    usage_.Add(session, {.device_seconds = seconds, .computations = done.gangs});
    if (on_device_seconds_) on_device_seconds_(session, seconds);
  }
}

void Observation::StoreUsage(absl::Span<SessionImpl* const> sessions) {
  const absl::Time now = clock_->Now();
  const double seconds = absl::ToDoubleSeconds(now - std::exchange(usage_stored_, now));
  CountDone();
  for (const auto& [session, took] : fabric_->TakeCompileTimes())
    usage_.Add(session, {.compile_seconds = absl::ToDoubleSeconds(took)});
  if (store_usage_) {
    for (const SessionImpl* session : sessions)
      usage_.Add(session->id(), {.array_byte_seconds = static_cast<double>(session->live_bytes()) * seconds});
  }
  std::vector<usage::Entry> entries = usage_.Take();
  if (store_usage_) store_usage_(std::move(entries));
}

void Observation::LookAtGangs(absl::Time now) {
  const gang::Scheduler& scheduler = fabric_->gangs().scheduler();
  std::vector<HangWatch::Gang> gangs;
  for (const Gangs::Underway& one : fabric_->gangs().ListUnderway()) {
    HangWatch::Gang gang{one.gang, one.session, one.heads, std::nullopt};
    if (scheduler.HasMeasured(one.executable)) gang.predicted = absl::Nanoseconds(scheduler.PredictCost(one.executable));
    gangs.push_back(gang);
  }
  for (const HangWatch::Hang& ended : watch_.Look(now, gangs)) {
    hangs_.erase(ended.gang.gang);
    std::string text = absl::StrCat("computation ", ended.gang.gang.v, " of client ", ended.gang.session.v, " has ended after ",
                                    Seconds(now - ended.since));
    PW_LOG_INFO << text;
    Note("hang ended", std::move(text), ended.gang.session);
  }
}

HangStatus Observation::Describe(const HangWatch::Hang& hang, const Examinations& examinations, bool* only_inputs) const {
  HangStatus status;
  status.gang = hang.gang.gang.v;
  status.client = hang.gang.session;
  status.seconds = absl::ToDoubleSeconds(clock_->Now() - hang.since);
  if (hang.gang.predicted.has_value()) status.predicted_seconds = absl::ToDoubleSeconds(*hang.gang.predicted);
  const std::string waits = Words(Launch::WAITS_FOR_INPUTS);
  *only_inputs = true;
  for (const auto& [host, op] : fabric_->ops().HostsOf(hang.gang.gang)) {
    const auto answer = examinations.find(host);
    std::string state = PartOf(hang.gang.session, op, answer == examinations.end() ? nullptr : &answer->second, &status.program);
    *only_inputs = *only_inputs && state == waits;
    const resource::Host* known = fabric_->topology().FindHost(host);
    status.parts.push_back({known == nullptr ? ToString(host) : known->name, std::move(state)});
  }
  return status;
}

void Observation::Judge(const Examinations& examinations) {
  const absl::Time now = clock_->Now();
  LookAtGangs(now);  // some may have ended meanwhile
  for (const HangWatch::Hang& suspect : watch_.Suspects(now)) {
    bool only_inputs = false;
    HangStatus status = Describe(suspect, examinations, &only_inputs);
    if (status.parts.empty() || (only_inputs && watch_.MayWaitForAnother(suspect, now))) continue;
    const bool is_new = watch_.Name(suspect.gang.gang);
    if (is_new) {
      ++named_;
      std::string text = TextOf(status);
      PW_LOG_WARNING << text;
      Note("hang", std::move(text), status.client);
    }
    HangStatus& known = hangs_[suspect.gang.gang];
    status.stacks = std::move(known.stacks);
    known = std::move(status);
    if (is_new) AskForStacks(suspect, examinations);
  }
}

// Asks hosts that have answered. Those that have not launched the gang come first: the others may wait for them.
void Observation::AskForStacks(const HangWatch::Hang& hang, const Examinations& examinations) {
  std::vector<HostId> late, launched;
  for (const auto& [host, op] : fabric_->ops().HostsOf(hang.gang.gang)) {
    const auto answer = examinations.find(host);
    if (answer == examinations.end()) continue;
    const Launch* launch = FindLaunch(hang.gang.session, op, answer->second);
    (launch != nullptr && launch->state() == Launch::LAUNCHED ? launched : late).push_back(host);
  }
  late.insert(late.end(), launched.begin(), launched.end());
  late.resize(std::min({late.size(), kMostStackHosts, kMostStackQuestions - asking_for_stacks_}));
  if (late.empty()) return Tell(hang.gang.gang);
  ::pathways::v1::StackQuestion question;
  question.add_sessions(hang.gang.session.v);
  asking_for_stacks_ += late.size();
  const auto left = std::make_shared<size_t>(late.size());
  for (const HostId host : late) {
    housekeeping_->ReadStacks(
        host, question,
        [this, alive = std::weak_ptr<bool>(alive_), gang = hang.gang.gang, host, left](const ::pathways::v1::Stacks& stacks) {
          if (alive.expired()) return;
          --asking_for_stacks_;
          AddStacks(gang, host, stacks);
          if (--*left == 0) Tell(gang);
        });
  }
}

// The sentence ends with the lines of the client's own program.
void Observation::Tell(gang::GangId gang) const {
  const auto hang = hangs_.find(gang);
  if (hang == hangs_.end() || on_hang_ == nullptr) return;
  std::string text = TextOf(hang->second);
  for (const HangStatus::Stack& stack : hang->second.stacks) {
    if (stack.process != kTheWorker) absl::StrAppend(&text, "\n", stack.process, ":\n", stack.text);
  }
  on_hang_(hang->second.client, text);
}

void Observation::AddStacks(gang::GangId gang, HostId host, const ::pathways::v1::Stacks& stacks) {
  const auto hang = hangs_.find(gang);
  if (hang == hangs_.end()) return;  // it has ended
  const resource::Host* known = fabric_->topology().FindHost(host);
  const std::string name = known == nullptr ? ToString(host) : known->name;
  for (int i = 0; i < std::min(stacks.processes_size(), kMostProcesses); ++i) {
    const auto& process = stacks.processes(i);
    std::string text = Quoted(absl::string_view(process.text()).substr(0, kMostStackBytes));
    std::vector<HangStatus::Stack>& told = hang->second.stacks;
    const bool is_known = std::any_of(told.begin(), told.end(), [&](const HangStatus::Stack& one) {
      return one.process == process.name() && one.text == text;
    });  // several hosts ask the same program
    if (is_known) continue;
    PW_LOG_WARNING << "computation " << gang.v << " hangs; host '" << name << "' tells the threads of " << process.name() << ":\n"
                   << text;
    told.push_back({name, process.name(), std::move(text)});
  }
}

void Observation::AddTo(StatusReport* report) const {
  report->now = clock_->Now();
  for (const auto& [gang, hang] : hangs_) report->hangs.push_back(hang);
  report->hangs_named = named_;
  report->events.assign(events_.events().begin(), events_.events().end());
}

}  // namespace pw::controller
