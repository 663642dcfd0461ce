#include "pathways/controller/session/arrays/array_files.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/arrays/save_run.h"
#include "pathways/dispatch/plan_files.h"

namespace pw::controller {
namespace {

absl::Status CheckStorable(buffers::DType dtype) {
  if (buffers::HostBytes(dtype) != 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("arrays of type ", std::string(buffers::Name(dtype)), " cannot be stored in files"));
}

// Returns the user whose files on the hosts the session may use; empty: the hosts' own.
std::string FilesOf(const session::NewSession& about) { return about.is_operator ? "" : about.user; }

// The paths of clients travel in commands and errors. The hosts check the rest.
absl::Status CheckPaths(const std::string& location, const std::string& name) {
  constexpr size_t kLongest = 4096;  // PATH_MAX
  if (location.size() + name.size() < kLongest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a location and the name of an array must have less than ", kLongest, " characters together"));
}

}  // namespace

ArrayFiles::ArrayFiles(SessionContext* context, PendingReads* reads, const session::NewSession& about)
    : context_(context), fabric_(context->fabric()), reads_(reads), user_(FilesOf(about)) {}

absl::StatusOr<const ArrayEntry*> ArrayFiles::CheckSave(Handle array) {
  PW_ASSIGN_OR_RETURN(const ArrayEntry* entry, context_->arrays().Live(array));
  if (entry->is_error()) return entry->record->status();
  PW_RETURN_IF_ERROR(CheckStorable(entry->spec->dtype));
  PW_RETURN_IF_ERROR(context_->devices().Check(entry->spec->sharding.devices()));
  return entry;
}

void ArrayFiles::Save(session::SaveRequest request, StatusCallback done) {
  std::vector<SaveRun::Array> arrays;
  absl::flat_hash_set<std::string> names;
  for (const auto& array : request.arrays) {
    if (const absl::Status status = CheckPaths(request.location, array.name); !status.ok())
      return context_->Answer(std::move(done), status);
    const absl::StatusOr<const ArrayEntry*> entry = CheckSave(array.array);
    if (!entry.ok()) return context_->Answer(std::move(done), entry.status());
    if (!names.insert(array.name).second)
      return context_->Answer(
          std::move(done), absl::InvalidArgumentError(absl::StrCat("two arrays of one save have the name '", array.name, "'")));
    arrays.push_back({array.name, (*entry)->record, (*entry)->effects, (*entry)->spec});
  }
  if (arrays.empty()) return context_->Answer(std::move(done), absl::OkStatus());
  const NameNeed need = SaveRun::Need(arrays.size());
  if (const absl::Status room = context_->names().now().CheckRoom(need); !room.ok())
    return context_->Answer(std::move(done), room);
  auto answer = [fabric = fabric_, done = std::move(done)](absl::Status status) mutable {
    fabric->Post([done = std::move(done), status = std::move(status)]() mutable { std::move(done)(std::move(status)); });
  };
  std::make_shared<SaveRun>(fabric_, context_->id(), context_->names().now().Take(need), context_->alive(), user_,
                            std::move(request.location), std::move(answer))
      ->Start(std::move(arrays));
}

absl::StatusOr<ArrayFiles::Record> ArrayFiles::TryLoad(const std::string& location, const session::LoadRequest::Array& array,
                                                       const SpecPtr& spec) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew({array.result}));
  PW_RETURN_IF_ERROR(CheckPaths(location, array.name));
  PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
  PW_RETURN_IF_ERROR(CheckStorable(spec->dtype));
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({1, 1}));
  Record record = context_->NewRecord(spec);
  const dispatch::FileCall call{context_->id(), record->id(), spec.get(), &location, &array.name, &user_};
  dispatch::PlanLoad(fabric_->topology(), call, [&](HostId host) { return context_->NameOp(host, {record}); }, fabric_->outbox());
  fabric_->gangs().Await(record);
  record->OnDone(absl::OkStatus());
  context_->arrays().Insert(array.result, {record, spec, nullptr, false});
  return record;
}

void ArrayFiles::Load(const session::LoadRequest& request, StatusCallback done) {
  std::vector<Record> records;
  absl::Status error;
  for (const auto& array : request.arrays) {
    const auto spec = std::make_shared<const buffers::ArraySpec>(array.spec);
    const SessionNames::Part part(&context_->names(), {1, 1});
    const absl::StatusOr<Record> record = TryLoad(request.location, array, spec);
    if (record.ok())
      records.push_back(*record);
    else
      error.Update(context_->Fail({array.result}, {spec}, record.status()));
  }
  reads_->Hold(std::move(records), [this, error, done = std::move(done)](absl::Status status) mutable {
    context_->Answer(std::move(done), error.ok() ? std::move(status) : error);
  });
}

}  // namespace pw::controller
