#include "pathways/worker/python/session_python.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {

constexpr size_t kMostOutputBytes = 1 << 20;  // of output that waits for the client
constexpr size_t kOutputPiece = 64 << 10;

std::string Explain(const std::string& how) {
  if (how == "it was ended by signal 9")
    return absl::StrCat(how, " (SIGKILL: by a user, or by the system because memory was short)");
  if (how == "it was ended by signal 11") return absl::StrCat(how, " (SIGSEGV)");
  return how;
}

}  // namespace

absl::Status SessionPython::EnsureLoaded(const PythonFunction& function) {
  if (process_ == nullptr) {
    PW_RETURN_IF_ERROR(environment_.may_start(session_));
    loaded_.clear();
    ready_.clear();
    pid_ = 0;
    const PythonOptions& options = *environment_.options;
    PW_ASSIGN_OR_RETURN(auto temporary, PrivateFolder::Create(options.rights.user));
    std::vector<std::string> command =
        WithRights(options.rights, temporary->path(), {options.python, "-P", "-m", "pathways._colocated.host"});
    process_ =
        std::make_unique<PythonProcess>(std::move(command), std::move(temporary), Greeting(hosts_, options.host_name),
                                        PythonProcess::Environment{environment_.strand, options.threads, environment_.files},
                                        static_cast<PythonProcess::Owner*>(this));
  }
  if (loaded_.contains(function.number)) return absl::OkStatus();
  const std::string& text = function.part.text;
  PW_ASSIGN_OR_RETURN(OutgoingMessage message, OutgoingMessage::Create(LoadHeader(function.number, function.part),
                                                                       {static_cast<int64_t>(text.size())}, environment_.memory));
  std::copy(text.begin(), text.end(), message.part(0));
  process_->Send(std::move(message));
  loaded_.insert(function.number);
  return absl::OkStatus();
}

void SessionPython::Load(const PythonFunction& function, Loaded loaded) {
  if (std::exchange(output_held_, false)) PassOutput();
  if (absl::Status status = EnsureLoaded(function); !status.ok()) return std::move(loaded)(status);
  if (ready_.contains(function.number)) return std::move(loaded)(absl::OkStatus());
  loading_[function.number].emplace_back(function.part.name, std::move(loaded));
}

void SessionPython::Unload(const PythonFunction& function) {
  seconds_.erase(function.number);
  ready_.erase(function.number);
  if (process_ == nullptr || loaded_.erase(function.number) == 0) return;
  absl::StatusOr<OutgoingMessage> message =
      OutgoingMessage::Create(absl::StrCat("{\"drop\":", function.number), {}, environment_.memory);
  if (message.ok()) process_->Send(*std::move(message));
}

void SessionPython::Send(const PythonCallRef& call) {
  if (absl::Status status = EnsureLoaded(*call->function); !status.ok()) return environment_.ended(call, status);
  process_->Send(*std::move(call->message));
  call->message.reset();
  call->state = PythonCall::State::kSent;
  running_[call->number] = call;
  environment_.activity->Begin();
  WatchCalls();
}

SessionPython::Limit SessionPython::LimitOf(const PythonFunction& function) const {
  const double operators = environment_.options->rights.seconds;
  const auto found = seconds_.find(function.number);
  const double programs = found == seconds_.end() ? 0 : found->second;
  if (programs > 0 && (operators <= 0 || programs <= operators))
    return {absl::Seconds(programs), "PATHWAYS_FUNCTION_SECONDS of the program"};
  if (operators > 0) return {absl::Seconds(operators), "--python-seconds of the host"};
  return {};
}

// Begins the time of each call that is the first of its stream.
void SessionPython::WatchCalls() {
  if (environment_.timers == nullptr) return;
  absl::flat_hash_set<uint64_t> streams;
  for (const auto& [number, call] : running_) {  // calls of a stream are sent in the order of their numbers
    if (!streams.insert(call->stream).second || call->watched || !ready_.contains(call->function->number)) continue;
    if (const Limit limit = LimitOf(*call->function); limit.time < absl::InfiniteDuration()) Watch(call, limit);
  }
}

void SessionPython::Watch(const PythonCallRef& call, const Limit& limit) {
  call->watched = true;
  auto late = [this, alive = std::weak_ptr<bool>(alive_), number = call->number, limit] {
    if (!alive.expired()) OnLate(number, limit);
  };
  environment_.timers->After(limit.time, environment_.strand, std::move(late));
}

void SessionPython::OnLate(uint64_t number, const Limit& limit) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  const PythonCallRef call = std::move(found->second);
  running_.erase(found);
  const std::string process = NameWithPid();
  const std::string late = absl::StrCat("the Python function ", call->function->part.name, " did not answer within ",
                                        absl::FormatDuration(limit.time), " (", limit.setting, ")");
  FailAll([&](bool loading, const std::string& name) {
    return absl::UnavailableError(absl::StrCat(process, " was ended while it ", loading ? "loaded " : "ran ", name, ": ", late,
                                               ". The next call starts a new process"));
  });
  environment_.activity->End();
  environment_.ended(call, absl::DeadlineExceededError(absl::StrCat(late, ": ", process, " was ended. The next call starts a new ",
                                                                    "process; objects and results of the old one are lost")));
}

std::string SessionPython::NameWithPid() const {
  const std::string pid = pid_ != 0 ? absl::StrCat(" (pid ", pid_, ")") : "";
  return absl::StrCat("the Python process of ", environment_.options->host_name, pid);
}

void SessionPython::OnMessage(PythonMessage message) {
  if (process_ != nullptr) pid_ = process_->pid();
  if (message.kind == PythonMessage::Kind::kLoaded) {
    if (message.status.ok() && loaded_.contains(message.number)) {
      ready_.insert(message.number);
      if (message.seconds > 0) seconds_[message.number] = message.seconds;
      WatchCalls();
    }
    auto found = loading_.find(message.number);
    if (found == loading_.end()) return;
    auto waiting = std::move(found->second);
    loading_.erase(found);
    for (auto& [name, loaded] : waiting) std::move(loaded)(message.status);
    return;
  }
  if (auto asked = asked_.find(message.number); asked != asked_.end()) {
    const auto done = std::move(asked->second);
    asked_.erase(asked);
    if (message.status.ok() && message.parts.size() == 1) return done(std::string(message.parts[0].view()));
    return done(message.status.ok() ? absl::InternalError("the answer has no text") : message.status);
  }
  auto found = running_.find(message.number);
  if (found == running_.end()) return;
  const PythonCallRef call = std::move(found->second);
  running_.erase(found);
  environment_.activity->End();
  WatchCalls();
  if (message.status.ok())
    environment_.ended(call, std::move(message.parts));
  else
    environment_.ended(call, message.status);
}

void SessionPython::FailAll(const std::function<absl::Status(bool loading, const std::string& name)>& why) {
  process_ = nullptr;
  auto loading = std::exchange(loading_, {});
  auto running = std::exchange(running_, {});
  for (auto& [number, done] : std::exchange(asked_, {})) done(absl::UnavailableError("the process has ended"));
  for (auto& [id, waiting] : loading) {
    for (auto& [name, loaded] : waiting) std::move(loaded)(why(true, name));
  }
  for (auto& [number, call] : running) {
    environment_.activity->End();
    environment_.ended(call, why(false, call->function->part.name));
  }
}

bool SessionPython::AskStacks(std::function<void(absl::StatusOr<std::string>)> done) {
  if (process_ == nullptr) return false;
  absl::StatusOr<OutgoingMessage> message =
      OutgoingMessage::Create(absl::StrCat("{\"stacks\":", next_question_), {}, environment_.memory);
  if (!message.ok()) return false;
  asked_[next_question_++] = std::move(done);
  process_->Send(*std::move(message));
  return true;
}

void SessionPython::Abandon(const absl::Status& why) {
  FailAll([&](bool, const std::string&) { return why; });
}

void SessionPython::Leave() {
  loading_.clear();
  for (auto& [number, done] : std::exchange(asked_, {}))
    done(absl::UnavailableError("the controller that wanted to know it has ended"));
}

void SessionPython::TakeOver(const Environment& environment) {
  environment_ = environment;
  passing_ = false;  // the piece that was on its way has arrived, or is lost
  output_held_ = true;
}

// Calls that have not been handed over go to the next process.
void SessionPython::OnEnded(const std::string& how) {
  const std::string process = NameWithPid();
  FailAll([&](bool loading, const std::string& name) {
    return absl::UnavailableError(
        absl::StrCat(process, " ended while it ", loading ? "loaded " : "ran ", name, ": ", Explain(how),
                     loading ? ". The worker's log has what it wrote before it was connected"
                             : ". The next call starts a new process; objects and results that the old one held are lost"));
  });
}

void SessionPython::OnOutput(absl::string_view text) {
  const size_t taken = std::min(text.size(), kMostOutputBytes - output_.size());
  output_.append(text.data(), taken);
  output_lost_ += text.size() - taken;
  PassOutput();
}

void SessionPython::PassOutput() {
  if (passing_ || output_held_ || output_.empty()) return;
  std::string text = output_.substr(0, kOutputPiece);
  output_.erase(0, text.size());
  if (output_.empty() && output_lost_ > 0)
    absl::StrAppend(&text, "\n[", std::exchange(output_lost_, 0), " bytes of output were dropped]\n");
  passing_ = true;
  device::HostCallRequest request;
  request.session = session_;
  request.callback = kOutputCallback;
  for (const std::string& part : {environment_.options->host_name, text})
    request.operands.push_back({buffers::DType::kU8, {static_cast<int64_t>(part.size())}, Bytes::Copy(part)});
  environment_.to_client(std::move(request), [this, alive = std::weak_ptr<bool>(alive_), strand = environment_.strand,
                                              text](const device::HostCallReply& reply) {
    strand->Post([this, alive, text, status = reply.status()] {
      if (!alive.expired()) OutputPassed(text, status);
    });
  });
}

void SessionPython::OutputPassed(const std::string& text, const absl::Status& status) {
  passing_ = false;
  if (!status.ok()) {
    PW_LOG_INFO << "a client's Python process printed: " << text;
  }
  PassOutput();
}

}  // namespace pw::worker
