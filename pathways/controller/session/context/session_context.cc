#include "pathways/controller/session/context/session_context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {
namespace {

// Commands carry shapes, which clients choose: this bound keeps every message within a frame.
constexpr size_t kMaxRank = 256;

}  // namespace

void SessionContext::Answer(StatusCallback done, absl::Status status) {
  fabric_->Post([done = std::move(done), status = std::move(status)]() mutable { std::move(done)(std::move(status)); });
}

void SessionContext::InsertError(Handle result, SpecPtr spec, const absl::Status& error) {
  // No host has it, so it needs no name.
  auto record = buffers::LogicalArray::MakeError(ArrayId(), id_, spec == nullptr ? no_spec_ : spec, error);
  arrays_.Insert(result, {std::move(record), std::move(spec), nullptr, false});
}

absl::Status SessionContext::Fail(absl::Span<const Handle> results, absl::Span<const SpecPtr> specs, const absl::Status& error) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (arrays_.CheckNew({results[i]}).ok()) InsertError(results[i], i < specs.size() ? specs[i] : nullptr, error);
  }
  return error;
}

SessionContext::Record SessionContext::NewRecord(const SpecPtr& spec) {
  return std::make_shared<buffers::LogicalArray>(NewArrayId(), id_, spec, 1,
                                                 fabric_->groups().Of(fabric_->topology(), spec->sharding));
}

absl::Status SessionContext::CheckSpec(const ArraySpec& spec) const {
  if (spec.dims.size() > kMaxRank)
    return absl::InvalidArgumentError(absl::StrCat("arrays have at most ", kMaxRank, " dimensions"));
  PW_RETURN_IF_ERROR(buffers::Validate(spec));
  PW_RETURN_IF_ERROR(devices_.Check(spec.sharding.devices()));
  if (spec.sharding.memory_kind().empty()) return absl::OkStatus();
  for (DeviceId device : spec.sharding.devices())
    PW_RETURN_IF_ERROR(fabric_->devices().MemoryKind(device, spec.sharding.memory_kind()).status());
  return absl::OkStatus();
}

void SessionContext::Share(Handle result, const ArrayEntry& source, SpecPtr spec) {
  arrays_.Insert(result, {source.record, std::move(spec), source.strings, false, source.effects});
}

void SessionContext::InsertStrings(Handle result, SpecPtr spec, StringCells cells) {
  auto record = std::make_shared<buffers::LogicalArray>(NewArrayId(), id_, spec, 1, nullptr);
  for (const auto& cell : cells) {
    if (cell->data.has_value()) continue;
    record->Expect(1);
    cell->waiting.push_back(record);
  }
  record->OnDone(absl::OkStatus());
  arrays_.Insert(result, {std::move(record), std::move(spec), std::make_shared<const StringCells>(std::move(cells)), false});
}

void SessionContext::Consume(absl::Span<const Handle> arrays, CopySemantics semantics) {
  if (semantics == CopySemantics::kDonateInput) arrays_.Delete(arrays).IgnoreError();
}

absl::StatusOr<std::vector<ArrayEntry>> SessionContext::LiveEntries(absl::Span<const Handle> arrays) {
  std::vector<ArrayEntry> entries;
  entries.reserve(arrays.size());
  for (Handle handle : arrays) {
    PW_ASSIGN_OR_RETURN(const ArrayEntry* entry, arrays_.Live(handle));
    entries.push_back(*entry);
  }
  return entries;
}

OpId SessionContext::NameOp(HostId host, const std::vector<Record>& results, OpsInFlight::Callback done) {
  return NameOp(names_.now(), host, results, std::move(done));
}

OpId SessionContext::NameOp(NameScope& names, HostId host, const std::vector<Record>& results, OpsInFlight::Callback done) {
  auto weak = std::make_shared<WeakArrays>(results.begin(), results.end());
  for (const Record& result : results) result->Expect(1);
  const OpId op = names.NextOp(host);
  fabric_->ops().Add(host, op, std::move(weak), std::move(done));
  if (fabric_->recorder().on()) Trace(host, op, "arrays");
  return op;
}

void SessionContext::Trace(HostId host, OpId op, const std::string& what, gang::GangId gang) {
  fabric_->recorder().Instant(trace::Kind::kRequest, absl::StrCat("client ", id_.v), what,
                              {.flow = FlowOf(host, op.v), .gang = gang.v});
}

}  // namespace pw::controller
