#include "pathways/controller/session/context/session_restorer.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/program.h"

namespace pw::controller {

session::SettledNews SessionRestorer::TakeSettled() {
  UnsettledRequests::Done done = UnsettledRequests::TakeDone(context_->names().unsettled());
  return {std::move(done.ranges), std::move(done.known)};
}

std::optional<uint64_t> SessionRestorer::NameOf(Handle array) {
  const ArrayEntry* entry = context_->arrays().Find(array);
  if (entry == nullptr || entry->record == nullptr || entry->strings != nullptr) return std::nullopt;
  if (entry->is_deleted() || entry->is_error() || entry->record->id().v == 0) return std::nullopt;
  return entry->record->id().v;
}

absl::Status SessionRestorer::RestoreArrays(absl::Span<const session::RestoredArray> arrays) {
  for (const session::RestoredArray& array : arrays) PW_RETURN_IF_ERROR(Restore(array));
  return absl::OkStatus();
}

absl::StatusOr<SessionContext::Record> SessionRestorer::RecordOf(const session::RestoredArray& array) {
  HostGroup* const group = fabric_->groups().Of(fabric_->topology(), array.spec->sharding);
  const DeviceId first = array.spec->sharding.devices()[0];
  PW_ASSIGN_OR_RETURN(const std::string memory, fabric_->devices().MemoryKind(first, array.spec->sharding.memory_kind()));
  auto record = std::make_shared<buffers::LogicalArray>(ArrayId(array.name), context_->id(), array.spec, 1, group);
  absl::Status state;
  for (HostId host : group->hosts()) {
    const auto found = fabric_->holdings().Find(context_->id(), host, ArrayId(array.name), *array.spec, memory);
    if (!found.has_value()) absent_.emplace_back(record, host);
    if (found.has_value() && !found->state.ok() && !found->poisoned) return found->state;
    if (found.has_value()) state.Update(found->state);
  }
  record->OnDone(state);
  return record;
}

// An array that cannot be restored is an error; what no client sends is refused.
absl::Status SessionRestorer::Restore(const session::RestoredArray& array) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew({array.handle}));
  if (array.deleted) {
    context_->arrays().Insert(array.handle, {nullptr, array.spec, nullptr, true});
    return absl::OkStatus();
  }
  if (!array.error.ok()) return context_->InsertError(array.handle, array.spec, array.error), absl::OkStatus();
  if (array.name == 0 || array.spec == nullptr) {
    context_->InsertError(
        array.handle, array.spec,
        absl::DataLossError("the array was an error when the controller before this one ended, which knew the reason"));
    return absl::OkStatus();
  }
  const std::optional<RequestName> name = RequestName::Read(array.name);
  if (!name.has_value() || name->session != context_->id() || name->own)
    return absl::InvalidArgumentError(absl::StrCat("array ", array.handle, " has the name of another session's"));
  if (const absl::Status status = context_->CheckSpec(*array.spec); !status.ok())
    return context_->InsertError(array.handle, array.spec, status), absl::OkStatus();
  if (const auto known = restored_.find(array.name); known != restored_.end()) {
    context_->arrays().Insert(array.handle, {known->second, array.spec, nullptr, false});
    return absl::OkStatus();
  }
  PW_ASSIGN_OR_RETURN(SessionContext::Record record, RecordOf(array));
  restored_.emplace(array.name, record);
  context_->arrays().Insert(array.handle, {std::move(record), array.spec, nullptr, false});
  return absl::OkStatus();
}

absl::Status SessionRestorer::CheckManyNodes(const Bytes& bytes) const {
  PW_ASSIGN_OR_RETURN(const program::Program program, program::ParseProgram({bytes.view().data(), bytes.size()}));
  if (program.proto->has_publication()) return absl::UnavailableError("the program has published arrays");
  if (program.proto->effects())
    return absl::UnavailableError("a program of many nodes has side effects, whose ends the client may await");
  return absl::OkStatus();
}

// Frees what hosts have kept, and neither the client has named nor a request that was carried out now makes: the session has dropped it, and the
// controller before has not told the host.
void SessionRestorer::Finish(absl::Span<const uint64_t> numbers, uint64_t last) {
  context_->names().unsettled()->Skip(last);
  const absl::flat_hash_set<uint64_t> carried_out(numbers.begin(), numbers.end());
  std::map<HostId, std::set<uint64_t>> releases;
  fabric_->holdings().ForEach(context_->id(), [&](HostId host, ArrayId array) {
    if (restored_.contains(array.v) || carried_out.contains(RequestName::Read(array.v)->request)) return;
    releases[host].insert(array.v);
  });
  for (const auto& [host, arrays] : releases) {
    ::pathways::v1::Command command;
    command.mutable_release()->mutable_arrays()->Add(arrays.begin(), arrays.end());
    fabric_->outbox().Add(host, std::move(command));
  }
  fabric_->holdings().Forget(context_->id());
  absl::flat_hash_set<SessionContext::Record> live;
  for (SessionContext::Record& record : context_->arrays().Records()) live.insert(std::move(record));
  for (const auto& [record, host] : std::exchange(absent_, {})) {
    if (!live.contains(record)) continue;
    record->Poison(absl::DataLossError(absl::StrCat(
        "the array is not on ", ToString(host), ": it was an error, or was lost, when the controller before this one ended")));
  }
  for (uint64_t name : SortedKeys(restored_)) restored_.erase(name);  // may be the last reference, which makes hosts free it
}

}  // namespace pw::controller
