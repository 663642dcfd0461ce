// Session requests about executables and about their results: readiness, contents.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/compile_options.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using Info = std::shared_ptr<const ExecutableInfo>;

}  // namespace

absl::Status ServedSession::CarryOutOnPrograms(Request& request) {
  using ::pathways::v1::SessionRequest;
  const uint64_t number = request.number;
  const SessionRequest& message = request.message;
  switch (message.kind_case()) {
    case SessionRequest::kAwaitReady:
      session_->WhenReady(std::vector<Handle>(message.await_ready().handles().begin(), message.await_ready().handles().end()),
                          AnswerStatus(number));
      break;
    case SessionRequest::kFetch:
      if (message.fetch().has_by_lane_above()) return FetchByLane(number, message.fetch());
      Fetch(number, message.fetch());
      break;
    case SessionRequest::kCompile:
      Compile(number, message.compile(), std::move(request.payload));
      break;
    case SessionRequest::kExecute:
      Execute(number, message.execute());
      break;
    case SessionRequest::kFetchRun:
      FetchRun(number, message.fetch_run());
      break;
    case SessionRequest::kAwaitEffects:
      session_->AwaitEffects(AnswerStatus(number));
      break;
    case SessionRequest::kCostAnalysis:
      AnalyzeCost(number, message.cost_analysis());
      break;
    case SessionRequest::kProgramText:
      session_->GetProgramText(ExecutableOf(message.program_text()), AnswerBytes(number));
      break;
    case SessionRequest::kProgramModule:
      session_->GetProgramModule(ExecutableOf(message.program_module()), AnswerBytes(number));
      break;
    case SessionRequest::kPublished:
      return AskPublished(number, message.published());
    case SessionRequest::kDropExecutable:
      DropExecutable(message.drop_executable());
      break;
    default:
      return absl::InternalError("it is not about programs");
  }
  return absl::OkStatus();
}

absl::Status ServedSession::AskPublished(uint64_t number, const ::pathways::v1::PublishedQuestion& proto) {
  PW_ASSIGN_OR_RETURN(const PublishedQuestion question, PublishedQuestionFrom(proto));
  session_->AskPublished(question, AnswerBytes(number));
  return absl::OkStatus();
}

// Returns 0 if the client's handle is unknown.
Handle ServedSession::ExecutableOf(Handle executable) const {
  auto found = executables_.find(executable);
  return found == executables_.end() ? 0 : found->second;
}

void ServedSession::Compile(uint64_t number, const ::pathways::v1::CompileProgram& request, Bytes program) {
  const Handle handle = request.executable();
  if (handle == 0 || executables_.contains(handle))
    return Answer(number, absl::AlreadyExistsError(absl::StrCat("executable handle ", handle, " is in use, or names nothing")),
                  nullptr);
  absl::StatusOr<CompileRequest> compile = CompileRequestFrom(request, Bytes());
  if (!compile.ok()) return Answer(number, compile.status(), nullptr);
  if (!request.program_sha256().empty()) {
    program = programs_->Find(request.program_sha256());
    if (program.empty()) return Answer(number, absl::OkStatus(), [](auto& answer, Bytes&) { answer.set_program_wanted(true); });
  } else {
    programs_->Add(program);
  }
  executables_[handle] = 0;  // reserved until compiled
  ResultCallback<Info> done = [weak = weak_from_this(), number, handle,
                               hold = session_->HoldRequest(number)](absl::StatusOr<Info> info) mutable {
    auto self = weak.lock();
    if (self == nullptr) return;
    if (!info.ok()) {
      self->executables_.erase(handle);
      return self->Answer(number, info.status(), nullptr, std::move(hold));
    }
    auto entry = self->executables_.find(handle);
    if (entry == self->executables_.end()) {  // dropped meanwhile
      self->session_->DestructExecutable((*info)->handle).IgnoreError();
    } else {
      entry->second = (*info)->handle;
    }
    self->Answer(
        number, absl::OkStatus(), [&](::pathways::v1::Answer& answer, Bytes&) { ToProto(**info, answer.mutable_compiled()); },
        std::move(hold));
  };
  if (request.format() == kManyNodesFormat) {
    many_nodes_.insert(handle);
    return session_->CompileProgram(std::move(program), std::move(done));
  }
  compile->program = std::move(program);
  session_->Compile(*std::move(compile), std::move(done));
}

absl::StatusOr<CompileRequest> ServedSession::CompileRequestFrom(const ::pathways::v1::CompileProgram& request,
                                                                 Bytes program) const {
  CompileRequest compile;
  if (client_.own_user) {
    compile.options = request.options();
  } else {
    PW_ASSIGN_OR_RETURN(compile.options, program::OptionsOfStranger(request.options()));
  }
  compile.format = request.format();
  compile.program = std::move(program);
  compile.translated = request.translated();
  compile.num_replicas = request.num_replicas();
  compile.num_partitions = request.num_partitions();
  compile.devices = DevicesFrom(request.devices());
  return compile;
}

void ServedSession::Execute(uint64_t number, const ::pathways::v1::ExecuteProgram& request) {
  if (request.status() != 0 && client_.restorable) runs_.try_emplace(request.status(), session_->HoldRequest(number));
  ExecuteRequest execute;
  execute.executable = ExecutableOf(request.executable());
  execute.args.assign(request.args().begin(), request.args().end());
  execute.results.assign(request.results().begin(), request.results().end());
  execute.status = request.status();
  execute.launch_id = request.launch_id();
  execute.non_donatable.assign(request.non_donatable().begin(), request.non_donatable().end());
  execute.devices = DevicesFrom(request.devices());
  execute.stream = request.stream();
  session_->Execute(execute).status().IgnoreError();  // the results hold the error
}

void ServedSession::Fetch(uint64_t number, const ::pathways::v1::FetchArray& request) {
  std::optional<buffers::Dims> strides;
  if (request.strided()) strides.emplace(request.byte_strides().begin(), request.byte_strides().end());
  const Handle buffer = next_fetch_++;
  session_->CopyToHostBuffer(
      request.array(), buffer, std::move(strides),
      [weak = weak_from_this(), number, buffer, hold = session_->HoldRequest(number)](absl::Status status) mutable {
        auto self = weak.lock();
        if (self == nullptr) return;
        if (!status.ok()) return self->Answer(number, status, nullptr, std::move(hold));
        self->session_->LookupHostBuffer(
            buffer, self->AnswerResult<Bytes>(number, [](Bytes data, auto&, Bytes& payload) { payload = std::move(data); }));
        self->session_->DeleteHostBuffer(buffer).IgnoreError();
      });
}

absl::Status ServedSession::FetchByLane(uint64_t number, const ::pathways::v1::FetchArray& request) {
  if (session_->lane_routes() == nullptr) return absl::UnimplementedError("this controller knows no lanes");
  LaneFetch fetch{number, request.by_lane_above(), std::nullopt};
  if (request.strided()) fetch.byte_strides.emplace(request.byte_strides().begin(), request.byte_strides().end());
  auto done = AnswerResult<FetchedArray>(number, [](FetchedArray fetched, auto& answer, Bytes& payload) {
    payload = std::move(fetched.data);
    if (fetched.on_lane_of.has_value()) answer.set_on_lane_of(fetched.on_lane_of->v);
  });
  session_->lane_routes()->FetchByLane(request.array(), std::move(fetch), std::move(done));
  return absl::OkStatus();
}

void ServedSession::FetchRun(uint64_t number, Handle status) {
  auto answer = AnswerResult<RunResult>(number, [](RunResult run, auto& answer, Bytes&) {
    answer.mutable_run()->mutable_device_microseconds()->insert(run.device_microseconds.begin(), run.device_microseconds.end());
  });
  auto run = runs_.extract(status);
  if (run.empty()) return session_->FetchExecuteResult(status, std::move(answer));
  // Another controller could not answer if the run's request were settled before its result is known.
  session_->FetchExecuteResult(status, [weak = weak_from_this(), hold = std::move(run.mapped()),
                                        answer = std::move(answer)](absl::StatusOr<RunResult> result) mutable {
    std::move(answer)(std::move(result));
    if (auto self = weak.lock()) self->KeepUntilAcknowledged(std::move(hold));
  });
}

void ServedSession::AnalyzeCost(uint64_t number, Handle executable) {
  session_->GetCostAnalysis(ExecutableOf(executable),
                            AnswerResult<CostAnalysis>(number, [](CostAnalysis cost, auto& answer, Bytes&) {
                              answer.mutable_cost()->mutable_numbers()->insert(cost.numbers.begin(), cost.numbers.end());
                            }));
}

ResultCallback<std::string> ServedSession::AnswerBytes(uint64_t number) {
  return AnswerResult<std::string>(
      number, [](std::string bytes, auto&, Bytes& payload) { payload = Bytes::FromString(std::move(bytes)); });
}

void ServedSession::DropExecutable(Handle executable) {
  const Handle known = ExecutableOf(executable);
  if (known != 0) session_->DestructExecutable(known).IgnoreError();
  executables_.erase(executable);
  many_nodes_.erase(executable);
}

}  // namespace pw::session
