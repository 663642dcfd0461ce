#include "pathways/controller/session/session_impl.h"

#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/controller/session/publications/session_publications.h"
#include "pathways/program/program.h"

namespace pw::controller {

SessionImpl::SessionImpl(SessionId id, session::NewSession about, Fabric* fabric, std::shared_ptr<Publications> publications,
                         absl::AnyInvocable<void() &&> on_end)
    : about_(std::move(about)),
      on_end_(std::move(on_end)),
      context_(id, fabric),
      restorer_(&context_, [this](const std::vector<DeviceId>& devices,
                                  const absl::Status& why) { return executable_table_.AddUnusable(devices, why)->handle; }),
      lanes_(id, fabric,
             [this](Handle array, session::LaneFetch fetch, ResultCallback<session::FetchedArray> done) {
               reader_.FetchByLane(array, fetch, std::move(done));
             }),
      host_buffers_(&context_),
      maker_(&context_, &host_buffers_, &lanes_),
      rearranger_(&context_),
      copier_(&context_),
      reader_(&context_, &reads_, &host_buffers_, &lanes_),
      files_(&context_, &reads_, about_),
      executable_table_(&context_),
      functions_(&context_, &reads_, &lanes_, &executable_table_),
      executables_(&context_, &lanes_, &executable_table_, &functions_, about_),
      publications_(
          std::make_unique<SessionPublications>(&context_, &rearranger_, &copier_, about_.user, std::move(publications))),
      run_results_(fabric),
      jit_calls_(&context_, &executable_table_, &functions_),
      programs_(&context_, &reads_, &lanes_, &executable_table_, &functions_, &executables_, &run_results_),
      seats_(&context_, &executable_table_, &executables_, &programs_),
      mover_(&context_, &executable_table_, &executables_, &programs_) {}

SessionImpl::~SessionImpl() {
  const absl::Status ended = absl::CancelledError("the session has ended");
  Fabric& fabric = *context_.fabric();
  context_.End();
  publications_ = nullptr;
  mover_.End(ended);
  fabric.groups().set_ending_session(context_.id());
  fabric.EndSession(context_.id());  // answers fetches, compilations and descriptions
  host_buffers_.EndAdmissions(ended);
  reads_.End(ended);
  run_results_.End(ended);
  host_buffers_.EndFills(ended);
  context_.arrays().Clear();
  fabric.groups().set_ending_session(SessionId());
  std::move(on_end_)();
}

void SessionImpl::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  programs_.OnDevicesLost(lost, error);
  context_.arrays().OnDevicesLost(lost, error);
  seats_.OnDevicesLost(lost);
}

void SessionImpl::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  executable_table_.OnSliceReleased(devices, error);
  programs_.OnSliceReleased(devices, error);
  for (const SessionContext::Record& record : context_.arrays().Records()) {
    if (record->OnDevicesLost(devices, error)) record->Free();
  }
}

void SessionImpl::OnTick(absl::Time now, bool slept) {
  publications_->OnTick(now);
  functions_.OnTick(now);
  host_buffers_.OnTick(now, slept || mover_.suspended());
}

void SessionImpl::AskPublished(const session::PublishedQuestion& question, ResultCallback<std::string> done) {
  publications_->Ask(question, std::move(done));
}

void SessionImpl::CompileProgram(Bytes program, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) {
  using Info = std::shared_ptr<const ExecutableInfo>;
  absl::StatusOr<program::Program> parsed = program::ParseProgram({program.view().data(), program.size()});
  if (!parsed.ok()) return context_.Answer<Info>(std::move(done), parsed.status());
  if (parsed->proto->has_publication()) return context_.Answer<Info>(std::move(done), publications_->Add(*parsed->proto));
  programs_.Compile(*std::move(parsed), std::move(done));
}

absl::StatusOr<ExecuteReply> SessionImpl::Execute(const ExecuteRequest& request) {
  absl::StatusOr<std::shared_ptr<ExecuteRun>> begun = run_results_.Begin(request.status);
  if (!begun.ok()) return context_.Fail(request.results, {}, begun.status());
  const std::shared_ptr<ExecuteRun> run = *std::move(begun);
  if (run != nullptr) run->request = context_.names().now().hold();
  if (programs_.Has(request.executable)) return programs_.Execute(request, run);
  if (publications_->Has(request.executable)) {
    absl::StatusOr<ExecuteReply> reply = publications_->Execute(request);
    if (run != nullptr) run->status = reply.status();
    return reply;
  }
  return jit_calls_.Execute(request, run);
}

absl::StatusOr<std::shared_ptr<const ExecutableInfo>> SessionImpl::Info(Handle executable) {
  if (programs_.Has(executable)) return programs_.InfoOf(executable);
  if (publications_->Has(executable)) return publications_->InfoOf(executable);
  PW_ASSIGN_OR_RETURN(const ExecutableEntry* entry, executable_table_.Find(executable));
  return entry->info;
}

absl::Status SessionImpl::DestructExecutable(Handle executable) {
  if (programs_.Has(executable)) return programs_.Destruct(executable), absl::OkStatus();
  if (publications_->Has(executable)) return publications_->Drop(executable), absl::OkStatus();
  return executables_.Destruct(executable);
}

template <class T>
bool SessionImpl::RefuseDescription(Handle executable, ResultCallback<T>& done) {
  if (!programs_.Has(executable)) return false;
  context_.Answer<T>(std::move(done),
                     absl::UnimplementedError("a program of many nodes has no description of its own: ask for those of "
                                              "its nodes' executables"));
  return true;
}

void SessionImpl::GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) {
  if (!RefuseDescription(executable, done)) executables_.GetCostAnalysis(executable, std::move(done));
}

void SessionImpl::GetProgramText(Handle executable, ResultCallback<std::string> done) {
  if (!RefuseDescription(executable, done)) executables_.GetProgramText(executable, std::move(done));
}

void SessionImpl::GetProgramModule(Handle executable, ResultCallback<std::string> done) {
  if (!RefuseDescription(executable, done)) executables_.GetProgramModule(executable, std::move(done));
}

}  // namespace pw::controller
