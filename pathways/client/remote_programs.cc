// Executables: the controller compiles them; their descriptions are kept here.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sha256.h"
#include "pathways/base/status_macros.h"
#include "pathways/client/remote_session.h"
#include "pathways/session/program_store.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::Answer;
using ::pathways::v1::SessionRequest;
using session::ResultCallback;

AnswerCallback ReadingBytes(ResultCallback<std::string> done) {
  return Reading(std::move(done), [](const Answer&, const Bytes& payload) { return std::string(payload.view()); });
}

}  // namespace

void RemoteSession::OnCompiled(SessionRequest request, Bytes program, const Answer& answer, ResultCallback<ExecutableRef> done) {
  const Handle handle = request.compile().executable();
  absl::StatusOr<session::ExecutableInfo> info = session::ExecutableFrom(answer.compiled());
  if (!info.ok()) return std::move(done)(info.status());
  info->handle = handle;
  const auto shared = std::make_shared<const session::ExecutableInfo>(*std::move(info));
  executables_[handle] = shared;
  if (link_->restorable()) compiled_.Add(handle, answer.request(), std::move(request), std::move(program));
  std::move(done)(shared);
}

void RemoteSession::CompileByHash(SessionRequest request, Bytes program, ResultCallback<ExecutableRef> done) {
  const Handle handle = NewHandle();
  request.mutable_compile()->set_executable(handle);
  if (!session::IsStored(program.size())) return Compile(std::move(request), std::move(program), std::move(done));
  SessionRequest named = request;
  named.mutable_compile()->set_program_sha256(Sha256(program.view()));
  Ask(std::move(named), [this, alive = std::weak_ptr<bool>(alive_), request = std::move(request), program = std::move(program),
                         done = std::move(done)](absl::StatusOr<Answer> answer, Bytes) mutable {
    if (!answer.ok() || alive.expired())
      return std::move(done)(answer.ok() ? absl::CancelledError("the session has ended") : answer.status());
    if (answer->program_wanted()) return Compile(std::move(request), std::move(program), std::move(done));
    OnCompiled(std::move(request), std::move(program), *answer, std::move(done));
  });
}

void RemoteSession::Compile(SessionRequest request, Bytes program, ResultCallback<ExecutableRef> done) {
  SessionRequest sent = request;
  Ask(std::move(sent),
      [this, alive = std::weak_ptr<bool>(alive_), request = std::move(request), program, done = std::move(done)](
          absl::StatusOr<Answer> answer, Bytes) mutable {
        if (!answer.ok() || alive.expired())
          return std::move(done)(answer.ok() ? absl::CancelledError("the session has ended") : answer.status());
        OnCompiled(std::move(request), std::move(program), *answer, std::move(done));
      },
      {program});
}

void RemoteSession::Compile(session::CompileRequest compile, ResultCallback<ExecutableRef> done) {
  SessionRequest request;
  auto& proto = *request.mutable_compile();
  proto.set_format(compile.format);
  proto.set_options(compile.options);
  proto.set_num_replicas(compile.num_replicas);
  proto.set_num_partitions(compile.num_partitions);
  proto.set_translated(compile.translated);
  session::ToProto(compile.devices, proto.mutable_devices());
  CompileByHash(std::move(request), std::move(compile.program), std::move(done));
}

void RemoteSession::CompileProgram(Bytes program, ResultCallback<ExecutableRef> done) {
  SessionRequest request;
  request.mutable_compile()->set_format(session::kManyNodesFormat);
  CompileByHash(std::move(request), std::move(program), std::move(done));
}

absl::StatusOr<RemoteSession::ExecutableRef> RemoteSession::Info(Handle executable) {
  auto found = executables_.find(executable);
  if (found != executables_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("executable ", executable, " is unknown to this session: it was never made, or it has been destructed"));
}

absl::StatusOr<session::ExecuteReply> RemoteSession::Execute(const session::ExecuteRequest& execute) {
  const absl::StatusOr<ExecutableRef> found = Info(execute.executable);
  if (!found.ok()) {
    for (Handle result : execute.results) arrays_.Insert(result, nullptr);
    return found.status();
  }
  const ExecutableRef info = *found;
  session::ExecuteReply reply;
  reply.results = execute.results;
  while (execute.results.empty() && reply.results.size() < info->output_specs.size()) reply.results.push_back(NewHandle());
  SessionRequest request;
  auto& proto = *request.mutable_execute();
  proto.set_executable(execute.executable);
  proto.mutable_args()->Add(execute.args.begin(), execute.args.end());
  proto.mutable_results()->Add(reply.results.begin(), reply.results.end());
  proto.set_status(execute.status);
  proto.set_launch_id(execute.launch_id);
  proto.mutable_non_donatable()->Add(execute.non_donatable.begin(), execute.non_donatable.end());
  session::ToProto(execute.devices, proto.mutable_devices());
  proto.set_stream(execute.stream);
  const uint64_t number = link_->Send(std::move(request));
  reply.specs = std::shared_ptr<const std::vector<buffers::ArraySpec>>(info, &info->output_specs);
  for (size_t i = 0; i < reply.results.size(); ++i)
    arrays_.Insert(reply.results[i], i < info->output_specs.size() ? ArrayTable::SpecPtr(info, &info->output_specs[i]) : nullptr,
                   number, compiled_.HasManyNodes(execute.executable) ? 0 : NameOf(number, i));
  for (int32_t donated : info->donated_inputs) {
    const bool kept =
        std::find(execute.non_donatable.begin(), execute.non_donatable.end(), donated) != execute.non_donatable.end();
    if (!kept && donated >= 0 && donated < static_cast<int32_t>(execute.args.size()))
      arrays_.Delete({execute.args[donated]}, number).IgnoreError();
  }
  if (!ended_.ok()) return ended_;
  return reply;
}

void RemoteSession::FetchExecuteResult(Handle status, ResultCallback<session::RunResult> done) {
  SessionRequest request;
  request.set_fetch_run(status);
  Ask(std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes&) {
        session::RunResult result;
        result.device_microseconds.insert(answer.run().device_microseconds().begin(), answer.run().device_microseconds().end());
        return result;
      }));
}

void RemoteSession::AwaitEffects(session::StatusCallback done) {
  SessionRequest request;
  request.set_await_effects(true);
  AskStatus(std::move(request), std::move(done));
}

void RemoteSession::AskPublished(const session::PublishedQuestion& question, ResultCallback<std::string> done) {
  SessionRequest request;
  link_->SetNotRestorable("it has used published arrays");
  session::ToProto(question, request.mutable_published());
  Ask(std::move(request), ReadingBytes(std::move(done)));
}

void RemoteSession::GetCostAnalysis(Handle executable, ResultCallback<session::CostAnalysis> done) {
  SessionRequest request;
  request.set_cost_analysis(executable);
  Ask(std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes&) {
        session::CostAnalysis cost;
        cost.numbers.insert(answer.cost().numbers().begin(), answer.cost().numbers().end());
        return cost;
      }));
}

void RemoteSession::GetProgramText(Handle executable, ResultCallback<std::string> done) {
  SessionRequest request;
  request.set_program_text(executable);
  Ask(std::move(request), ReadingBytes(std::move(done)));
}

void RemoteSession::GetProgramModule(Handle executable, ResultCallback<std::string> done) {
  SessionRequest request;
  request.set_program_module(executable);
  Ask(std::move(request), ReadingBytes(std::move(done)));
}

absl::Status RemoteSession::DestructExecutable(Handle executable) {
  if (executables_.erase(executable) == 0) return Info(executable).status();
  SessionRequest request;
  request.set_drop_executable(executable);
  compiled_.Drop(executable, link_->Send(std::move(request)));
  return absl::OkStatus();
}

}  // namespace pw::client
