#include "pathways/controller/session/moves/session_mover.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/arrays/array_layouts.h"
#include "pathways/dispatch/plan_move.h"

namespace pw::controller {
namespace {

bool AnyOf(const std::vector<DeviceId>& devices, const DeviceMapping& mapping) {
  return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return mapping.contains(device); });
}

}  // namespace

struct SessionMover::Preparation {
  DeviceMapping to;
  SessionExecutables::Twins twins;
  size_t left = 0;
  absl::Status status;
  StatusCallback done;
};

void SessionMover::Prepare(const DeviceMapping& to, StatusCallback done) {
  preparation_ = std::make_shared<Preparation>();
  preparation_->to = to;
  preparation_->done = std::move(done);
  for (const auto& [device, physical] : to) fabric_->topology().Bind(SessionDevices::ScratchOf(device), physical);
  CompileForTarget();
}

void SessionMover::CompileForTarget() {
  const std::shared_ptr<Preparation> p = preparation_;
  std::vector<Handle> missing;
  for (Handle handle : executable_table_->Handles()) {
    const ExecutableEntry& entry = *executable_table_->FindOrNull(handle);
    if (entry.gone.ok() && AnyOf(entry.record->devices, p->to) && !p->twins.contains(handle)) missing.push_back(handle);
  }
  if (missing.empty() || !p->status.ok()) return std::exchange(p->done, nullptr)(p->status);
  p->left = missing.size();
  for (Handle handle : missing) {
    CompileRequest request = *executable_table_->FindOrNull(handle)->source;
    for (DeviceId& device : request.devices) {
      if (p->to.contains(device)) device = SessionDevices::ScratchOf(device);
    }
    executables_->Compile(std::move(request), [this, alive = context_->alive(), p,
                                               handle](absl::StatusOr<std::shared_ptr<const ExecutableInfo>> info) {
      if (alive.expired()) return;
      p->status.Update(info.status());
      if (info.ok()) p->twins[handle] = (*info)->handle;
      if (--p->left == 0 && p == preparation_) CompileForTarget();  // executables that were added meanwhile
    });
  }
}

void SessionMover::End(const absl::Status& error) {
  const std::shared_ptr<Preparation> p = std::exchange(preparation_, nullptr);
  if (p == nullptr) return;
  for (const auto& [device, physical] : p->to) fabric_->topology().Unbind(SessionDevices::ScratchOf(device));
  if (p->done) context_->Answer(std::exchange(p->done, nullptr), error);
}

void SessionMover::Abandon() {
  const std::shared_ptr<Preparation> p = std::exchange(preparation_, nullptr);
  if (p == nullptr) return;
  for (const auto& [handle, twin] : p->twins) executables_->Destruct(twin).IgnoreError();
  for (const auto& [device, physical] : p->to) fabric_->topology().Unbind(SessionDevices::ScratchOf(device));
}

SessionMover::Record SessionMover::MoveRecord(const Record& from, const ArraySpec& from_spec, const SpecPtr& spec) {
  const SessionNames::Outside outside(&context_->names());  // moves follow from what others do, too
  Record to = context_->NewRecord(spec);
  if (absl::Status keeps = CheckKeepsLayout(fabric_->topology(), from_spec, *spec); !keeps.ok()) {
    to->Poison(keeps);
    return to;
  }
  const dispatch::MoveCall call{context_->id(), from->id(), &from_spec, to->id(), spec.get()};
  dispatch::PlanMove(
      fabric_->topology(), call, dispatch::ShardwisePlan(*spec), [&] { return context_->names().now().NextId(); },
      [&](HostId host) { return context_->NameOp(host, {to}); }, fabric_->outbox());
  fabric_->gangs().Derive(context_->id(), to->id(), {from->id()});
  to->OnDone(absl::OkStatus());
  to->WhenSettled([from](const absl::Status&) {});  // holds `from` until it has been read
  return to;
}

struct SessionMover::MovingArray {
  Record record;
  ArraySpec from;  // on physical devices: its own spec does not tell them any more after the move
  SpecPtr spec;    // its new spec
};

// Returns the live arrays with a part on these devices, and the saved ones.
std::vector<SessionMover::MovingArray> SessionMover::ArraysOn(const DeviceMapping& devices) const {
  std::vector<MovingArray> leaving;
  for (const Record& record : context_->arrays().Records()) {
    if (record->state() == buffers::LogicalArray::State::kError || record->deleted()) continue;
    if (auto saved = saved_.find(record.get()); saved != saved_.end()) {
      leaving.push_back({record, record->spec(), saved->second});
    } else if (AnyOf(record->spec().sharding.devices(), devices)) {
      leaving.push_back({record,
                         OnDevices(record->spec(), [&](DeviceId d) { return fabric_->topology().FindDevice(d)->physical; }),
                         record->shared_spec()});
    }
  }
  return leaving;
}

std::vector<SessionMover::Record> SessionMover::MoveAll(const std::vector<MovingArray>& leaving) {
  std::vector<Record> moved;
  absl::flat_hash_map<const buffers::LogicalArray*, Record> replaced;
  for (const MovingArray& one : leaving) {
    moved.push_back(MoveRecord(one.record, one.from, one.spec));
    replaced[one.record.get()] = moved.back();
  }
  context_->arrays().Replace(replaced);
  return moved;
}

std::vector<SessionMover::Record> SessionMover::Move(const DeviceMapping& to) {
  const std::vector<MovingArray> leaving = ArraysOn(to);
  saved_.clear();
  const std::shared_ptr<Preparation> preparation = std::exchange(preparation_, nullptr);
  for (const auto& [device, physical] : to) {
    fabric_->topology().Bind(device, physical);
    fabric_->topology().Unbind(SessionDevices::ScratchOf(device));
  }
  const std::shared_ptr<void> old_executables = executables_->Replace(preparation->twins);
  programs_->MakeAnew([&](const ProgramEntry& entry) { return AnyOf(entry.devices, to); }, old_executables);
  return MoveAll(leaving);
}

buffers::ArraySpec SessionMover::InHostMemory(const ArraySpec& spec) const {
  const auto& memories = fabric_->topology().FindDevice(spec.sharding.devices()[0])->description.memories;
  for (const char* kind : {"unpinned_host", "pinned_host"}) {
    for (const auto& memory : memories) {
      if (memory.kind != kind) continue;
      ArraySpec there = spec;
      there.sharding = spec.sharding.WithMemoryKind(kind);
      return there;
    }
  }
  return spec;  // there is no other memory than the device's
}

std::vector<SessionMover::Record> SessionMover::Suspend() {
  DeviceMapping everywhere;
  for (const Record& record : context_->arrays().Records()) {
    for (DeviceId device : record->spec().sharding.devices()) everywhere[device] = device;
  }
  std::vector<MovingArray> leaving = ArraysOn(everywhere);
  std::vector<SpecPtr> specs;
  for (MovingArray& one : leaving)
    specs.push_back(std::exchange(one.spec, std::make_shared<const ArraySpec>(InHostMemory(one.from))));
  std::vector<Record> saved = MoveAll(leaving);
  for (size_t i = 0; i < saved.size(); ++i) saved_[saved[i].get()] = specs[i];
  suspended_ = true;
  return saved;
}

void SessionMover::Resume() {
  suspended_ = false;
  for (auto& resumed : std::exchange(when_resumed_, {})) fabric_->Post(std::move(resumed));
}

}  // namespace pw::controller
