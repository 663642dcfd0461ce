// Makes a session of the controller before once more (session.proto, Controllers that return).
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::SessionEvent;
using ::pathways::v1::SessionRequest;

absl::Status Lost(absl::string_view part) {
  return absl::UnavailableError(
      absl::StrCat("its controller has ended, and the one that has taken its place cannot restore the session: ", part));
}

absl::Status Unusable(const absl::Status& why) {
  return absl::Status(why.code(),
                      absl::StrCat("the program could not be loaded after another controller had taken over: ", why.message()));
}

// Returns an error if only the controller that has begun this request could have ended it.
absl::Status MayCarryOutAgain(const SessionRequest& request, bool one_host) {
  switch (request.kind_case()) {
    case SessionRequest::kMakeArray:
    case SessionRequest::kHostBuffer:
    case SessionRequest::kMakeErrorArray:
    case SessionRequest::kAssemble:
    case SessionRequest::kDisassemble:
    case SessionRequest::kReplicatedShard:
    case SessionRequest::kRemap:
    case SessionRequest::kBitcast:
    case SessionRequest::kDelete:
    case SessionRequest::kDestruct:
    case SessionRequest::kLaneLost:
    case SessionRequest::kAwaitReady:
    case SessionRequest::kFetch:
    case SessionRequest::kCompile:
    case SessionRequest::kExecute:
    case SessionRequest::kFetchRun:
    case SessionRequest::kAwaitEffects:
    case SessionRequest::kCostAnalysis:
    case SessionRequest::kProgramText:
    case SessionRequest::kProgramModule:
    case SessionRequest::kDropExecutable:
    case SessionRequest::kChangeShare:
    case SessionRequest::kAddSlice:
    case SessionRequest::kAwaitSlice:
    case SessionRequest::kReleaseSlice:
    case SessionRequest::kStatus:
      return absl::OkStatus();
    case SessionRequest::kCopy:
    case SessionRequest::kReshard:
      return one_host ? absl::OkStatus() : Lost("a copy was under way, perhaps between hosts");
    case SessionRequest::kSave:
    case SessionRequest::kLoad:
      return Lost("arrays were on their way to or from files");
    case SessionRequest::kPublished:
      return Lost("the program used published arrays");
    case SessionRequest::kDrainHost:
    case SessionRequest::kSuspend:
      return Lost("virtual slices were moved");
    case SessionRequest::kHostCallReply:
      return Lost("a program of many nodes was running");
    default:
      return Lost("a recording or a question of an operator was under way");
  }
}

// Returns an error if an array has the name of one that these requests make, or later ones than `last`: it would have that one's shards, perhaps of
// another shape.
absl::Status CheckNames(const std::vector<uint64_t>& names, const std::vector<uint64_t>& numbers, uint64_t last) {
  const absl::flat_hash_set<uint64_t> carried_out(numbers.begin(), numbers.end());
  for (uint64_t number : names) {
    const std::optional<RequestName> name = RequestName::Read(number);
    if (!name.has_value() || (name->request <= last && !carried_out.contains(name->request))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the client names an array that request ", name->request, " makes, which is not settled"));
  }
  return absl::OkStatus();
}

}  // namespace

struct ServedSession::Restoring {
  std::vector<uint64_t> names;  // of the arrays
  std::vector<Request> unsettled;
  ::pathways::v1::Restore last;  // the last part
  size_t compiles = 0;           // that hosts have not answered
  absl::Status status;           // the first error
  StatusCallback done;
};

void ServedSession::Restore(std::vector<RestorePart> parts, StatusCallback done) {
  auto restoring = std::make_shared<Restoring>();
  restoring->done = std::move(done);
  restoring->compiles = 1;  // until all have begun
  for (RestorePart& part : parts) {
    restoring->status.Update(RestoreSlices(part.restore));
    restoring->status.Update(RestoreArrays(part.restore));
    for (const auto& array : part.restore.arrays()) restoring->names.push_back(array.name());
    restoring->status.Update(RestorePrograms(restoring, part));
    restoring->last = std::move(part.restore);
  }
  if (--restoring->compiles == 0) FinishRestore(restoring);
}

absl::Status ServedSession::RestoreSlices(const ::pathways::v1::Restore& part) {
  if (!part.has_slices()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const RestoredSlices slices, RestoredSlicesFrom(part.slices()));
  return cluster_->RestoreSlices(id(), slices);
}

absl::Status ServedSession::RestoreArrays(const ::pathways::v1::Restore& part) {
  std::vector<std::shared_ptr<const buffers::ArraySpec>> specs;
  for (const auto& proto : part.specs()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFrom(proto));
    specs.push_back(std::make_shared<const buffers::ArraySpec>(std::move(spec)));
  }
  std::vector<RestoredArray> arrays;
  for (const auto& proto : part.arrays()) {
    if (proto.spec() > specs.size()) return absl::InvalidArgumentError("an array has a description that is not there");
    arrays.push_back({proto.handle(), proto.spec() == 0 ? nullptr : specs[proto.spec() - 1], proto.name(),
                      StatusFrom(proto.error()), proto.deleted()});
  }
  return session_->restoration()->RestoreArrays(arrays);
}

// Compiles the executables, and keeps the requests that are not settled.
absl::Status ServedSession::RestorePrograms(const std::shared_ptr<Restoring>& restoring, RestorePart& part) {
  if (part.restore.numbers_size() != part.requests.size()) return absl::InvalidArgumentError("not each request has a number");
  for (int i = 0; i < part.requests.size(); ++i) {
    SessionRequest& message = part.requests[i];
    const uint64_t number = part.restore.numbers(i);
    if (number != 0) {
      if (!restoring->unsettled.empty() && number <= restoring->unsettled.back().number)
        return absl::InvalidArgumentError("the requests do not ascend");
      restoring->unsettled.push_back({number, std::move(message), std::move(part.payloads[i])});
      continue;
    }
    const Handle handle = message.compile().executable();
    if (!message.has_compile() || handle == 0 || !executables_.try_emplace(handle, 0).second)
      return absl::InvalidArgumentError("an executable has no description, or no handle of its own");
    PW_ASSIGN_OR_RETURN(CompileRequest compile, CompileRequestFrom(message.compile(), std::move(part.payloads[i])));
    programs_->Add(compile.program);
    ++restoring->compiles;
    auto done = [weak = weak_from_this(), restoring, handle,
                 devices = compile.devices](absl::StatusOr<std::shared_ptr<const ExecutableInfo>> info) {
      auto self = weak.lock();
      if (self == nullptr) return;
      // Perhaps its slice was released, or a host of it has not come back. A program that is not used any more must not end the session.
      self->executables_[handle] =
          info.ok() ? (*info)->handle : self->session_->restoration()->AddUnusable(devices, Unusable(info.status()));
      if (--restoring->compiles == 0) self->FinishRestore(restoring);
    };
    if (compile.format == kManyNodesFormat) {
      const absl::Status whole = session_->restoration()->CheckManyNodes(compile.program);
      if (!whole.ok()) restoring->status.Update(Lost(whole.message()));
      many_nodes_.insert(handle);
      session_->CompileProgram(std::move(compile.program), std::move(done));
    } else {
      session_->Compile(std::move(compile), std::move(done));
    }
  }
  return absl::OkStatus();
}

absl::Status ServedSession::CarryOutUnsettled(Restoring& restoring) {
  if (restoring.last.last_request() == 0) return absl::InvalidArgumentError("the last part of what is to be restored is missing");
  const bool one_host = session_->restoration()->OnOneHost();
  for (const Request& request : restoring.unsettled) {
    if (request.number >= restoring.last.last_request()) return absl::InvalidArgumentError("a request comes after the last one");
    PW_RETURN_IF_ERROR(MayCarryOutAgain(request.message, one_host));
    const bool runs = request.message.has_execute() && many_nodes_.contains(request.message.execute().executable());
    if (runs || request.message.compile().format() == kManyNodesFormat)
      return Lost("a program of many nodes (pw.program, or a copy by the PJRT door) was compiled or run");
  }
  const uint64_t last = restoring.last.last_request() - 1;
  std::vector<uint64_t> numbers;
  for (const Request& request : restoring.unsettled) numbers.push_back(request.number);
  PW_RETURN_IF_ERROR(CheckNames(restoring.names, numbers, last));
  SessionEvent news;
  auto& settled = *news.mutable_settled()->mutable_ranges();
  uint64_t next = 1;
  const auto settle_up_to = [&](uint64_t end) {
    if (next <= end) settled.Add(next), settled.Add(end);
  };
  for (Request& request : restoring.unsettled) {
    if (request.message.has_lane_lost()) continue;  // of a lane that this controller has not offered
    settle_up_to(request.number - 1);
    next = request.number + 1;
    PW_RETURN_IF_ERROR(CarryOut(request));
  }
  settle_up_to(last);  // no controller will carry out the others: some were not sent, because their client has the answers
  if (!settled.empty()) Tell(std::move(news));
  const auto& deleted = restoring.last.deleted();
  const auto& destructed = restoring.last.destructed();
  session_->Delete(std::vector<Handle>(deleted.begin(), deleted.end())).IgnoreError();
  session_->Destruct(std::vector<Handle>(destructed.begin(), destructed.end())).IgnoreError();
  for (Handle executable : restoring.last.dropped()) DropExecutable(executable);
  for (uint64_t slice : restoring.last.released_slices()) cluster_->ReleaseSlice(id(), SliceId(slice), [](absl::Status) {});
  session_->restoration()->Finish(numbers, last);
  stream_.BeginAfter(last);
  return absl::OkStatus();
}

void ServedSession::FinishRestore(const std::shared_ptr<Restoring>& restoring) {
  const auto self = shared_from_this();
  if (restoring->status.ok()) restoring->status = CarryOutUnsettled(*restoring);
  cluster_->Post([restoring] { std::move(restoring->done)(restoring->status); });
}

}  // namespace pw::session
