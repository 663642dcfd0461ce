#include "pathways/controller/session/session_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/publications/session_publications.h"

namespace pw::controller {

SessionImpl::SessionImpl(SessionId id, session::NewSession about, Fabric* fabric, std::shared_ptr<Publications> publications,
                         absl::AnyInvocable<void() &&> on_end)
    : SessionContext(id, fabric),
      about_(std::move(about)),
      on_end_(std::move(on_end)),
      lanes_(id, fabric,
             [this](Handle array, session::LaneFetch fetch, ResultCallback<session::FetchedArray> done) {
               reader_.FetchByLane(array, fetch, std::move(done));
             }),
      host_buffers_(this),
      maker_(this, &host_buffers_, &lanes_),
      rearranger_(this),
      copier_(this),
      reader_(this, &reads_, &host_buffers_, &lanes_),
      files_(this, &reads_, about_),
      executable_table_(this),
      functions_(this, &reads_, &lanes_, &executable_table_),
      executables_(this, &lanes_, &executable_table_, &functions_),
      publications_(std::make_unique<SessionPublications>(static_cast<SessionContext*>(this), &rearranger_, &copier_, about_.user,
                                                          std::move(publications))),
      run_results_(fabric),
      jit_calls_(this, &executable_table_, &functions_),
      programs_(this, &reads_, &lanes_, &executable_table_, &executables_, &run_results_),
      seats_(this, &executable_table_, &executables_, &programs_),
      mover_(this, &executable_table_, &executables_, &programs_) {}

SessionImpl::~SessionImpl() {
  const absl::Status ended = absl::CancelledError("the session has ended");
  SessionContext::End();
  publications_ = nullptr;
  mover_.End(ended);
  fabric_->groups().set_ending_session(id_);
  fabric_->EndSession(id_);  // answers fetches, compilations and descriptions
  host_buffers_.EndAdmissions(ended);
  reads_.End(ended);
  run_results_.End(ended);
  host_buffers_.EndFills(ended);
  arrays_.Clear();
  fabric_->groups().set_ending_session(SessionId());
  std::move(on_end_)();
}

void SessionImpl::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  programs_.OnDevicesLost(lost, error);
  arrays_.OnDevicesLost(lost, error);
  seats_.OnDevicesLost(lost);
}

void SessionImpl::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  executable_table_.OnSliceReleased(devices, error);
  programs_.OnSliceReleased(devices, error);
  for (const Record& record : arrays_.Records()) {
    if (record->OnDevicesLost(devices, error)) record->Free();
  }
}

void SessionImpl::OnTick(absl::Time now, bool slept) {
  publications_->OnTick(now);
  host_buffers_.OnTick(now, slept || mover_.suspended());
}

void SessionImpl::AskPublished(const session::PublishedQuestion& question, ResultCallback<std::string> done) {
  publications_->Ask(question, std::move(done));
}

void SessionImpl::CompileProgram(Bytes program, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) {
  using Info = std::shared_ptr<const ExecutableInfo>;
  absl::StatusOr<program::Program> parsed = program::ParseProgram({program.view().data(), program.size()});
  if (!parsed.ok()) return Answer<Info>(std::move(done), parsed.status());
  if (parsed->proto->has_publication()) return Answer<Info>(std::move(done), publications_->Add(*parsed->proto));
  programs_.Compile(*std::move(parsed), std::move(done));
}

absl::StatusOr<ExecuteReply> SessionImpl::Execute(const ExecuteRequest& request) {
  absl::StatusOr<std::shared_ptr<Run>> begun = run_results_.Begin(request.status);
  if (!begun.ok()) return Fail(request.results, {}, begun.status());
  const std::shared_ptr<Run> run = *std::move(begun);
  if (programs_.Has(request.executable)) return programs_.Execute(request, run);
  if (publications_->Has(request.executable)) {
    absl::StatusOr<ExecuteReply> reply = publications_->Execute(request);
    if (run != nullptr) run->status = reply.status();
    return reply;
  }
  return jit_calls_.Execute(request, run);
}

void SessionImpl::FetchExecuteResult(Handle handle, ResultCallback<RunResult> done) {
  run_results_.Fetch(handle, std::move(done));
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
  Answer<T>(std::move(done), absl::UnimplementedError("a program of many nodes has no description of its own: ask for those of "
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
