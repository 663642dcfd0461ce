#include "pathways/controller/session/arrays/save_run.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/dispatch/plan_files.h"

namespace pw::controller {

using ::pathways::v1::Command;

SaveRun::SaveRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> open, std::string user,
                 std::string location, session::StatusCallback done)
    : fabric_(fabric),
      session_(session),
      names_(std::move(names)),
      commit_op_(names_.NextOpOfAll()),
      drop_op_(names_.NextOpOfAll()),
      open_(std::move(open)),
      user_(std::move(user)),
      location_(std::move(location)),
      name_(absl::StrCat(absl::BytesToHexString(fabric->MakeKey().substr(0, 8)), "n", names_.NextId())),
      done_(std::move(done)) {}

OpId SaveRun::Await(HostId host, OpId op, void (SaveRun::*then)(const absl::Status&)) {
  ++missing_;
  fabric_->ops().Add(host, op, std::make_shared<const WeakArrays>(),
                     [self = shared_from_this(), then](const absl::Status& status, auto) { ((*self).*then)(status); });
  return op;
}

std::string SaveRun::HostName(HostId host) const {
  const resource::Host* const found = fabric_->topology().FindHost(host);
  return found == nullptr ? ToString(host) : fabric_->topology().Describe(*found);
}

void SaveRun::Start(std::vector<Array> arrays) {
  arrays_ = std::move(arrays);
  ++missing_;  // the arrays themselves
  std::vector<buffers::LogicalArray::Ref> awaited;
  std::set<HostId> writers;
  dispatch::WriteLoad load;
  for (const Array& array : arrays_) {
    awaited.push_back(array.record);
    if (array.effects != nullptr) awaited.push_back(array.effects);
    for (DeviceId device : array.spec->sharding.devices()) hosts_.insert(fabric_->topology().FindDevice(device)->host);
    stored_.push_back(dispatch::DescribeStored(array.name, *array.spec));
    const dispatch::FileCall call{session_, array.record->id(), array.spec.get(), &location_, &array.name, &user_};
    for (HostId host : dispatch::PlanSave(
             fabric_->topology(), call, name_, &load, [&](HostId h) { return Await(h, names_.NextOp(h), &SaveRun::OnWritten); },
             fabric_->outbox())) {
      writers.insert(host);
    }
  }
  for (HostId host : writers) {
    auto& writer = writers_.emplace_back();
    writer.set_host(host.v);
    writer.set_name(HostName(host));
  }
  buffers::WhenAllSettled(awaited, [self = shared_from_this()](const absl::Status& status) { self->OnWritten(status); });
}

void SaveRun::OnWritten(const absl::Status& status) {
  error_.Update(status);
  if (--missing_ > 0) return;
  arrays_.clear();
  if (open_.expired()) error_.Update(absl::CancelledError("the session has ended"));
  error_.ok() ? Commit() : Drop();
}

std::vector<HostId> SaveRun::PresentWriters() const {
  std::vector<HostId> present;
  for (const auto& writer : writers_) {
    if (fabric_->topology().FindHost(HostId(writer.host())) != nullptr) present.push_back(HostId(writer.host()));
  }
  return present;
}

void SaveRun::Commit() {
  std::vector<HostId> hosts = PresentWriters();
  for (HostId host : hosts_) {  // of arrays without elements, which no host writes
    if (writers_.empty() && fabric_->topology().FindHost(host) != nullptr) hosts.push_back(host);
  }
  if (hosts.empty()) {
    error_ = writers_.empty() ? absl::DataLossError("all hosts of the arrays are gone")
                              : fabric_->losses().Of(HostId(writers_[0].host()));
    return Finish();
  }
  Command command;
  auto& commit = *command.mutable_commit_save();
  committer_ = hosts[0];
  commit.set_op(Await(*committer_, commit_op_, &SaveRun::OnCommitted).v);
  commit.set_save(name_);
  commit.set_location(location_);
  commit.set_user(user_);
  commit.mutable_arrays()->Add(stored_.begin(), stored_.end());
  commit.mutable_writers()->Add(writers_.begin(), writers_.end());
  commit.set_host(HostName(*committer_));
  fabric_->outbox().Add(*committer_, std::move(command));
}

void SaveRun::OnCommitted(const absl::Status& status) {
  --missing_;
  error_ = status;
  lost_committer_ = !status.ok() && fabric_->topology().FindHost(*committer_) == nullptr;
  status.ok() ? Finish() : Drop();
}

void SaveRun::Drop() {
  const std::vector<HostId> hosts = PresentWriters();
  if (hosts.empty()) return Finish();
  for (HostId host : hosts) {  // each of them, for they may not share the files
    Command command;
    auto& drop = *command.mutable_drop_save();
    drop.set_op(Await(host, drop_op_, &SaveRun::OnDropped).v);
    drop.set_save(name_);
    drop.set_location(location_);
    drop.set_user(user_);
    drop.set_host(HostName(host));
    fabric_->outbox().Add(host, std::move(command));
  }
}

void SaveRun::OnDropped(const absl::Status& status) {
  if (status.ok())
    removed_ = true;
  else if (absl::IsAlreadyExists(status))
    completed_ = true;
  else if (!absl::IsNotFound(status))
    unclear_ = true;
  if (--missing_ > 0) return;
  if (completed_ || (lost_committer_ && !removed_ && !unclear_)) error_ = absl::OkStatus();
  Finish();
}

void SaveRun::Finish() {
  if (error_.ok()) return std::move(done_)(absl::OkStatus());
  const std::string what = committer_.has_value() && !removed_
                               ? absl::StrCat("it is not known whether arrays were saved to ", location_,
                                              ", where those of this save or of earlier ones are whole: ")
                               : absl::StrCat("nothing was saved to ", location_, ", where earlier saves are unchanged: ");
  std::move(done_)(absl::Status(error_.code(), absl::StrCat(what, error_.message())));
}

}  // namespace pw::controller
