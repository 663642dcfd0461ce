// Moves slices off a host: each goes to other devices that satisfy its request, while its client works on.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/controller/slices/slices.h"

namespace pw::controller {

// A host that is being drained.
struct Slices::Drainage {
  DrainReport report;
  size_t left = 1;  // sessions that are being moved, plus the function that starts them
  ResultCallback<DrainReport> done;

  void Leave() {
    if (--left == 0) std::move(done)(std::move(report));
  }
};

absl::StatusOr<HostId> Slices::FindHost(const std::string& name) const {
  const resource::Topology& topology = fabric_->topology();
  std::vector<HostId> found;
  std::vector<std::string> names;
  for (HostId id : topology.hosts()) {
    names.push_back(topology.FindHost(id)->name);
    if (names.back() == name) found.push_back(id);
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) return absl::InvalidArgumentError(absl::StrCat("there are ", found.size(), " hosts named '", name, "'"));
  return absl::NotFoundError(absl::StrCat("there is no host '", name, "'; there are ", absl::StrJoin(names, ", ")));
}

void Slices::Drain(const std::string& host_name, bool undo, ResultCallback<DrainReport> done) {
  const absl::StatusOr<HostId> host = FindHost(host_name);
  if (!host.ok()) return std::move(done)(host.status());
  auto drainage = std::make_shared<Drainage>();
  drainage->report.host = host_name;
  drainage->done = std::move(done);
  Learn(table_.SetDrained(*host, !undo));
  if (undo) return drainage->Leave();
  std::map<SessionId, std::vector<SliceId>> moving;
  for (const Slice* slice : table_.OnHost(*host)) {
    const resource::Answer answer = table_.BeginMove(slice->id);
    if (std::holds_alternative<resource::Placed>(answer)) {
      moving[slice->owner].push_back(slice->id);
    } else if (const auto* infeasible = std::get_if<resource::Infeasible>(&answer)) {
      drainage->report.stuck.push_back({slice->id, infeasible->why});
    } else {
      drainage->report.stuck.push_back(
          {slice->id, absl::StrCat("it waits for ", std::get<resource::MustWait>(answer).waits_for)});
    }
  }
  for (auto& [session, slices] : moving) {
    ++drainage->left;
    MoveSlices(session, std::move(slices), drainage);
  }
  drainage->Leave();
}

void Slices::MoveSlices(SessionId session, std::vector<SliceId> slices, const std::shared_ptr<Drainage>& drainage) {
  SessionImpl* const of = find_session_(session);
  DeviceMapping to;
  for (SliceId id : slices) {
    if (of->mover().moving()) {
      drainage->report.stuck.push_back({id, "its client is being moved already: drain the host again in a moment"});
      Learn(table_.AbortMove(id));
      continue;
    }
    const Slice& slice = *table_.Find(id);
    for (size_t i = 0; i < slice.devices.size(); ++i) to[bound_.at(id)[i]] = slice.next[i];
  }
  if (to.empty()) return drainage->Leave();
  of->mover().Prepare(
      to, [this, alive = std::weak_ptr<bool>(alive_), session, slices = std::move(slices), to, drainage](absl::Status status) {
        if (!alive.expired()) FinishMove(session, slices, to, std::move(status), drainage);
      });
}

void Slices::FinishMove(SessionId session, const std::vector<SliceId>& slices, const DeviceMapping& to, absl::Status status,
                        const std::shared_ptr<Drainage>& drainage) {
  SessionImpl* const of = find_session_(session);
  if (of == nullptr) return drainage->Leave();  // its slices are released
  for (SliceId id : slices) {
    const Slice* slice = table_.Find(id);
    if (slice == nullptr || slice->broken || slice->next.empty())
      status.Update(absl::AbortedError("the slice changed while it was moved: drain the host again"));
  }
  if (!status.ok()) {
    of->mover().Abandon();
    for (SliceId id : slices) {
      drainage->report.stuck.push_back({id, std::string(status.message())});
      Learn(table_.AbortMove(id));
    }
    return drainage->Leave();
  }
  const auto arrays = of->mover().Move(to);
  Pool& pool = PoolOf(session);
  for (const auto& [device, physical] : to) SpareOf(pool, device).physical = physical;
  for (SliceId id : slices) {
    drainage->report.moved.push_back(id);
    PW_LOG_INFO << ToString(id) << " of client " << session.v << " moves off host '" << drainage->report.host << "'";
    Learn(table_.EndMove(id));
    TellMoved(id);
  }
  buffers::WhenAllSettled(arrays, [drainage](const absl::Status&) { drainage->Leave(); });
}

}  // namespace pw::controller
