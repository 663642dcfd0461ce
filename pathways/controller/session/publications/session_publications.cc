#include "pathways/controller/session/publications/session_publications.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/program/program.h"

namespace pw::controller {
namespace {

using buffers::ArraySpec;
using session::PublishedQuestion;

absl::StatusOr<ArraySpec> SpecFrom(const ::pathways::v1::ProgramNode::Type& type, program::Shardings& shardings) {
  ArraySpec spec;
  PW_ASSIGN_OR_RETURN(spec.dtype, buffers::DTypeFromNumber(type.dtype()));
  spec.dims.assign(type.dims().begin(), type.dims().end());
  PW_ASSIGN_OR_RETURN(spec.sharding, shardings.Of(type.sharding(), type.dims_size()));
  return spec;
}

std::string Described(const PublishedVersion& version) {
  JsonWriter json;
  json.BeginObject()
      .Key("version")
      .Int(static_cast<int64_t>(version.number))
      .Key("note")
      .String(version.note)
      .Key("arrays")
      .BeginArray();
  for (const PublishedVersion::Array& array : version.arrays) {
    json.BeginObject().Key("dtype").Int(static_cast<int>(array.spec->dtype)).Key("dims").BeginArray();
    for (int64_t dim : array.spec->dims) json.Int(dim);
    json.EndArray().EndObject();
  }
  return json.EndArray().EndObject().Take();
}

std::string Versioned(uint64_t number) {
  JsonWriter json;
  return json.BeginObject().Key("version").Int(static_cast<int64_t>(number)).EndObject().Take();
}

}  // namespace

SessionPublications::SessionPublications(SessionContext* context, ArrayRearranger* rearranger, ArrayCopier* copier,
                                         std::string user, std::shared_ptr<Publications> shared)
    : context_(context), rearranger_(rearranger), copier_(copier), user_(std::move(user)), shared_(std::move(shared)) {
  shared_->Add(this);
}

SessionPublications::~SessionPublications() {
  for (Wait& wait : waits_) context_->Answer<std::string>(std::move(wait.done), absl::CancelledError("the session has ended"));
  shared_->Remove(this, context_->id());
}

absl::StatusOr<SessionPublications::Program> SessionPublications::Parse(const ::pathways::v1::Program& proto) const {
  const ::pathways::v1::Publication& publication = proto.publication();
  if (proto.nodes_size() > 0 || proto.executables_size() > 0) return absl::InvalidArgumentError("it has nodes or executables");
  Program program;
  program.name = publication.name();
  program.read = publication.read();
  program.note = publication.note();
  program.part = publication.part();
  program.parts = publication.parts();
  if (publication.arrays_size() == 0 || publication.arrays_size() > kMostArrays)
    return absl::InvalidArgumentError(absl::StrCat("it has ", publication.arrays_size(), " arrays, not 1 to ", kMostArrays));
  if (!program.read && (program.parts > kMostParts || program.part >= program.parts))
    return absl::InvalidArgumentError(absl::StrCat("it is part ", program.part, " of ", program.parts));
  if (program.note.size() > kMostNoteBytes)
    return absl::InvalidArgumentError(absl::StrCat("its note has ", program.note.size(), " bytes"));
  auto specs = std::make_shared<std::vector<ArraySpec>>();
  program::Shardings shardings(&proto);
  std::set<uint32_t> numbers;
  for (const auto& array : publication.arrays()) {
    PW_ASSIGN_OR_RETURN(ArraySpec spec, SpecFrom(array.type(), shardings));
    PW_RETURN_IF_ERROR(context_->CheckSpec(spec));
    if (array.number() >= kMostArrays || !numbers.insert(array.number()).second)
      return absl::InvalidArgumentError(absl::StrCat("array ", array.number(), " is there twice, or its number is too large"));
    if (spec.dtype == buffers::DType::kString) return absl::InvalidArgumentError("arrays of strings cannot be published");
    program.numbers.push_back(array.number());
    specs->push_back(std::move(spec));
  }
  program.specs = std::move(specs);
  return program;
}

absl::StatusOr<SessionPublications::Info> SessionPublications::Add(const ::pathways::v1::Program& proto) {
  absl::StatusOr<Program> parsed = Parse(proto);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat("the publication '", proto.publication().name(), "': ", parsed.status().message()));
  }
  Program program = *std::move(parsed);
  auto info = std::make_shared<ExecutableInfo>();
  info->handle = context_->arrays().NewHandle();
  info->name = absl::StrCat(program.read ? "read " : "publish ", program.name);
  info->fingerprint = absl::StrCat("publication ", context_->fabric()->NextId());
  info->devices = program.specs->front().sharding.devices();
  for (const ArraySpec& spec : *program.specs) (program.read ? info->outputs : info->parameters).push_back(ToInfo(spec));
  if (program.read) info->output_specs = *program.specs;
  program.info = info;
  programs_.emplace(info->handle, std::move(program));
  return info;
}

absl::StatusOr<ExecuteReply> SessionPublications::Execute(const ExecuteRequest& request) {
  const Program& program = programs_.at(request.executable);
  const size_t wanted = program.read ? program.specs->size() : 0;
  std::vector<Handle> results = request.results;
  while (request.results.empty() && results.size() < wanted) results.push_back(context_->arrays().NewHandle());
  absl::Status status;
  if (results.size() != wanted)
    status = absl::InvalidArgumentError(absl::StrCat(program.info->name, " has ", wanted, " results, not ", results.size()));
  if (status.ok()) status = program.read ? TryRead(program, results) : TryPublish(program, request);
  if (!status.ok()) return context_->Fail(request.results, {}, status);
  return ExecuteReply{std::move(results), {program.info, &program.info->output_specs}};
}

ArrayEntry SessionPublications::Alias(const ArrayEntry& source) {
  std::vector<ShardPick> picks;
  for (int shard = 0; shard < source.spec->sharding.num_shards(); ++shard) picks.push_back({&source, shard});
  return rearranger_->Alias(source.spec, picks);
}

absl::Status SessionPublications::TryPublish(const Program& program, const ExecuteRequest& request) {
  if (!shared_->Owns(user_, program.name, context_->id()))
    return absl::FailedPreconditionError(absl::StrCat("this session has not claimed the name '", program.name, "'"));
  PW_ASSIGN_OR_RETURN(const std::vector<ArrayEntry> entries, context_->LiveEntries(request.args));
  if (entries.size() != program.specs->size())
    return absl::InvalidArgumentError(
        absl::StrCat(program.info->name, " takes ", program.specs->size(), " arrays, not ", entries.size()));
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].is_error() || (entries[i].strings == nullptr && Fits(*entries[i].spec, (*program.specs)[i]))) continue;
    return absl::InvalidArgumentError(absl::StrCat("argument ", i, " of ", program.info->name, " is ",
                                                   buffers::ToString(*entries[i].spec), " where ",
                                                   buffers::ToString((*program.specs)[i]), " is expected"));
  }
  auto [at, first] = begun_.try_emplace(program.name);
  Begun& begun = at->second;
  if (first) {
    for (uint32_t part = 0; part < program.parts; ++part) begun.missing.insert(part);
  }
  if (begun.missing.erase(program.part) == 0) {
    Forget(program.name);
    return absl::FailedPreconditionError(
        absl::StrCat("part ", program.part, " of '", program.name, "' came twice, before other parts came once"));
  }
  if (program.part == 0) begun.note = program.note;
  for (size_t i = 0; i < entries.size(); ++i) {
    const SessionNames::Part part(&context_->names(), {1, 1});
    if (entries[i].is_error()) {
      begun.error.Update(entries[i].record->status());
      continue;
    }
    ArrayEntry alias = Alias(entries[i]);
    begun.records.push_back(alias.record);
    const Handle handle = context_->arrays().NewHandle();
    begun.arrays[program.numbers[i]] = {handle, alias.spec};
    context_->arrays().Insert(handle, std::move(alias));
  }
  if (!begun.missing.empty()) return absl::OkStatus();
  Begun whole = std::move(begun);
  begun_.erase(at);
  Complete(program.name, std::move(whole));
  return absl::OkStatus();
}

void SessionPublications::Forget(const std::string& name) {
  const auto begun = begun_.extract(name);
  if (begun.empty()) return;
  for (const auto& [number, array] : begun.mapped().arrays) context_->arrays().Erase({array.handle}).IgnoreError();
}

// All parts have come: makes the version, and shows it when its arrays are there.
void SessionPublications::Complete(const std::string& name, Begun begun) {
  auto drop = [owner = std::weak_ptr<SessionPublications*>(self_)](PublishedVersion* version) {
    if (const auto publisher = owner.lock()) {
      std::vector<Handle> handles;
      for (const PublishedVersion::Array& array : version->arrays) handles.push_back(array.handle);
      (*publisher)->context_->arrays().Erase(handles).IgnoreError();
    }
    delete version;
  };
  const std::shared_ptr<PublishedVersion> version(new PublishedVersion, drop);
  version->number = shared_->NextNumber(user_, name);
  version->note = std::move(begun.note);
  version->publisher = self_;
  for (auto& [number, array] : begun.arrays) version->arrays.push_back(std::move(array));
  if (begun.error.ok() && (begun.arrays.empty() || begun.arrays.rbegin()->first + 1 != begun.arrays.size()))
    begun.error = absl::InvalidArgumentError("its arrays are not numbered from 0 on");
  buffers::WhenAllSettled(begun.records, [this, owner = std::weak_ptr<SessionPublications*>(self_), name, version,
                                          error = begun.error](const absl::Status& settled) {
    if (owner.expired()) return;
    const absl::Status& status = error.ok() ? settled : error;
    if (status.ok()) return shared_->Publish(user_, name, context_->id(), version);
    PW_LOG_WARNING << "client " << context_->id().v << ": version " << version->number << " of '" << name
                   << "' is not published: " << status;
  });
}

absl::Status SessionPublications::TryRead(const Program& program, const std::vector<Handle>& results) {
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
  const auto pin = pins_.find(program.name);
  if (pin == pins_.end())
    return absl::FailedPreconditionError(
        absl::StrCat("this session has asked for no version of '", program.name, "', or has read it already"));
  const auto& arrays = pin->second.version->arrays;
  for (size_t i = 0; i < results.size(); ++i) {
    const uint32_t number = program.numbers[i];
    const uint64_t from = number < arrays.size() ? arrays[number].spec->sharding.devices().size() : 0;
    NameNeed need = ArrayCopier::NeedOf(from * program.spec(i)->sharding.devices().size());
    need += {1, 1};  // the alias
    const SessionNames::Part part(&context_->names(), need);
    const absl::Status status = ReadOne(pin->second, program.numbers[i], results[i], program.spec(i));
    if (!status.ok()) context_->InsertError(results[i], program.spec(i), status);
  }
  if (pin->second.unread.empty()) pins_.erase(pin);
  return absl::OkStatus();
}

absl::Status SessionPublications::ReadOne(Pin& pin, uint32_t number, Handle result, const SpecPtr& spec) {
  const PublishedVersion& version = *pin.version;
  if (number >= version.arrays.size())
    return absl::InvalidArgumentError(
        absl::StrCat("version ", version.number, " has ", version.arrays.size(), " arrays, and no number ", number));
  const PublishedVersion::Array& array = version.arrays[number];
  if (array.spec->dtype != spec->dtype || array.spec->dims != spec->dims)
    return absl::InvalidArgumentError(
        absl::StrCat("array ", number, " is ", buffers::ToString(*array.spec), ", not ", buffers::ToString(*spec)));
  pin.unread.erase(number);
  PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));  // again: hosts may have been lost meanwhile
  const auto publisher = version.publisher.lock();
  if (publisher == nullptr)
    return absl::UnavailableError(
        absl::StrCat("the program that published version ", version.number, " has ended: wait for a newer version"));
  const ArrayEntry* found = (*publisher)->context_->arrays().Find(array.handle);
  if (found == nullptr) return absl::InternalError(absl::StrCat("array ", number, " of version ", version.number, " is gone"));
  const ArrayEntry source = *found;  // inserting moves the entries, if the session is the publisher itself
  if (source.is_error()) return source.record->status();
  return copier_->ReshardOne(result, Alias(source), spec, CopySemantics::kReuseInput);
}

std::string SessionPublications::Take(const std::string& name, const VersionRef& version) {
  Pin& pin = pins_[name];
  pin.version = version;
  pin.unread.clear();
  for (size_t number = 0; number < version->arrays.size(); ++number) pin.unread.insert(static_cast<uint32_t>(number));
  return Described(*version);
}

void SessionPublications::Ask(const PublishedQuestion& question, ResultCallback<std::string> done) {
  const std::string& name = question.name;
  if (question.what == PublishedQuestion::What::kClaim) {
    absl::StatusOr<uint64_t> last = shared_->Claim(user_, name, context_->id());
    return context_->Answer<std::string>(std::move(done),
                                         last.ok() ? absl::StatusOr<std::string>(Versioned(*last)) : last.status());
  }
  if (question.what == PublishedQuestion::What::kWithdraw) {
    shared_->Withdraw(user_, name, context_->id());
    Forget(name);
    return context_->Answer<std::string>(std::move(done), std::string("{}"));
  }
  const VersionRef newest = shared_->Newest(user_, name);
  if (newest != nullptr && newest->number > question.above)
    return context_->Answer<std::string>(std::move(done), Take(name, newest));
  if (waits_.size() >= kMostWaits) {
    return context_->Answer<std::string>(std::move(done), absl::ResourceExhaustedError(absl::StrCat(
                                                              "this session waits for ", waits_.size(), " versions already")));
  }
  waits_.push_back({name, question.above, context_->fabric()->Now() + question.limit, std::move(done)});
}

void SessionPublications::OnPublished(const std::string& user, const std::string& name, const VersionRef& version) {
  if (user != user_) return;
  for (auto it = waits_.begin(); it != waits_.end();) {
    const auto wait = it++;
    if (wait->name != name || wait->above >= version->number) continue;
    context_->Answer<std::string>(std::move(wait->done), Take(name, version));
    waits_.erase(wait);
  }
}

void SessionPublications::OnTick(absl::Time now) {
  for (auto it = waits_.begin(); it != waits_.end();) {
    const auto wait = it++;
    if (wait->until > now) continue;
    context_->Answer<std::string>(std::move(wait->done), std::string("{}"));
    waits_.erase(wait);
  }
}

}  // namespace pw::controller
