// Suspends clients, so that others can use their devices, and resumes them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/slices/slices.h"

namespace pw::controller {
namespace {

// Reports the arrays when all have settled; a lost array is an error by itself and does not fail the report.
void WhenThere(const std::vector<buffers::LogicalArray::Ref>& arrays, ResultCallback<SuspendReport> done) {
  SuspendReport report;
  for (const auto& array : arrays) {
    ++report.arrays;
    report.bytes += buffers::DenseBytes(array->spec().dtype, array->spec().dims).value_or(0);
  }
  buffers::WhenAllSettled(arrays, [report, done = std::move(done)](const absl::Status&) mutable { std::move(done)(report); });
}

}  // namespace

absl::StatusOr<SessionImpl*> Slices::FindSession(SessionId session) const {
  if (SessionImpl* found = find_session_(session)) return found;
  return absl::NotFoundError(absl::StrCat("there is no client ", session.v, ": `pathways status` lists them"));
}

void Slices::Suspend(SessionId session, ResultCallback<SuspendReport> done) {
  const absl::StatusOr<SessionImpl*> of = FindSession(session);
  if (!of.ok()) return std::move(done)(of.status());
  if ((*of)->suspended() || (*of)->mover().moving()) {
    return std::move(done)(absl::FailedPreconditionError(absl::StrCat(
        "client ", session.v, (*of)->suspended() ? " is suspended already" : " is being moved: try again in a moment")));
  }
  const auto saved = (*of)->mover().Suspend();
  for (const Slice* slice : table_.OfOwner(session)) {
    if (!slice->broken) Learn(table_.Park(slice->id));
  }
  WhenThere(saved, std::move(done));
}

void Slices::Resume(SessionId session, ResultCallback<SuspendReport> done) {
  const absl::StatusOr<SessionImpl*> of = FindSession(session);
  if (!of.ok()) return std::move(done)(of.status());
  if (!(*of)->suspended() || (*of)->mover().moving()) {
    return std::move(done)(absl::FailedPreconditionError(
        absl::StrCat("client ", session.v, (*of)->suspended() ? " is being resumed already" : " is not suspended")));
  }
  DeviceMapping to;
  absl::Status status;
  for (const Slice* slice : table_.OfOwner(session)) {
    if (slice->broken || !slice->devices.empty()) continue;  // slices with devices were placed meanwhile
    const resource::Answer answer = table_.BeginMove(slice->id);
    if (!std::holds_alternative<resource::Placed>(answer)) {
      const auto* infeasible = std::get_if<resource::Infeasible>(&answer);
      status = absl::FailedPreconditionError(absl::StrCat("client ", session.v, " cannot be resumed now: no devices for its ",
                                                          ToString(slice->id), ": ",
                                                          infeasible != nullptr ? infeasible->why : "others hold them"));
      break;
    }
    for (size_t i = 0; i < slice->next.size(); ++i) to[bound_.at(slice->id)[i]] = slice->next[i];
  }
  if (!status.ok()) return FinishResume(session, to, status, std::move(done));
  (*of)->mover().Prepare(
      to, [this, alive = std::weak_ptr<bool>(alive_), session, to, done = std::move(done)](absl::Status prepared) mutable {
        if (!alive.expired()) FinishResume(session, to, std::move(prepared), std::move(done));
      });
}

void Slices::FinishResume(SessionId session, const DeviceMapping& to, absl::Status status, ResultCallback<SuspendReport> done) {
  SessionImpl* const of = find_session_(session);
  if (of == nullptr) return std::move(done)(absl::CancelledError("the client has disconnected meanwhile"));
  std::vector<SliceId> slices;
  for (const Slice* slice : table_.OfOwner(session)) {
    if (slice->broken || !slice->devices.empty()) continue;
    slices.push_back(slice->id);
    if (slice->next.empty()) status.Update(absl::AbortedError("a host was lost meanwhile: try again"));
  }
  if (!status.ok()) {
    of->mover().Abandon();
    for (SliceId slice : slices) Learn(table_.AbortMove(slice));
    return std::move(done)(status);
  }
  const auto arrays = of->mover().Move(to);
  Pool& pool = PoolOf(session);
  for (const auto& [device, physical] : to) SpareOf(pool, device).physical = physical;
  for (SliceId slice : slices) {
    Learn(table_.EndMove(slice));
    TellMoved(slice);
  }
  of->mover().Resume();
  WhenThere(arrays, std::move(done));
}

}  // namespace pw::controller
