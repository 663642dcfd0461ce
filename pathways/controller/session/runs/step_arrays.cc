#include "pathways/controller/session/runs/step_arrays.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/controller/hosts/bulk_sender.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Command;

absl::Status StepArrays::WhyGone(const Record& array) const {
  absl::Status why = array->status();
  why.Update(context_->devices().Check(array->spec().sharding.devices()));
  return why.ok() ? absl::UnavailableError("a host was lost") : why;
}

HostGroup* StepArrays::GroupOf(const ProgramEntry& entry, int value) const {
  std::vector<HostId> hosts;
  for (const ProgramEntry::Place& place : *entry.steps->places[value]) hosts.push_back(place.host);
  SortAndMerge(hosts);
  return fabric_->groups().Of(std::move(hosts));
}

StepArrays::Record StepArrays::New(NameScope& names, const ProgramEntry& entry, int value) {
  return std::make_shared<buffers::LogicalArray>(ArrayId(names.NextId()), context_->id(), entry.steps->cut.specs[value], 1,
                                                 GroupOf(entry, value));
}

StepArrays::Record StepArrays::NewResult(NameScope& names, const ProgramEntry& entry, size_t result) {
  const std::vector<HostId>& hosts = entry.lowered.result_hosts[result];
  const int completions = fabric_->sequential_dispatch() ? 1 : static_cast<int>(hosts.size());
  return std::make_shared<buffers::LogicalArray>(ArrayId(names.NextId()), context_->id(), entry.result_spec(result), completions,
                                                 fabric_->groups().Of(hosts));
}

StepArrays::Record StepArrays::AliasOf(NameScope& names, const ProgramEntry& entry, int value, absl::Span<const Record> sources) {
  const std::vector<ProgramEntry::Place>& places = *entry.steps->places[value];
  Record record = New(names, entry, value);
  std::map<HostId, Command> commands;
  int shard = 0;
  for (const Record& source : sources) {
    for (int s = 0; s < source->spec().sharding.num_shards(); ++s, ++shard) {
      auto& item = *commands[places[shard].host].mutable_alias()->add_items();
      item.set_array(record->id().v);
      item.set_shard(shard);
      item.set_source_array(source->id().v);
      item.set_source_shard(s);
    }
    fabric_->gangs().Derive(context_->id(), record->id(), {source->id()});
  }
  for (auto& [host, command] : commands) {
    if (!fabric_->outbox().HasHost(host)) {
      record->Poison(WhyGone(record));
      continue;
    }
    command.mutable_alias()->set_op(context_->NameOp(names, host, {record}).v);
    command.mutable_alias()->set_session(context_->id().v);
    Send(host, std::move(command));
  }
  record->OnDone(absl::OkStatus());
  return record;
}

StepArrays::Expected StepArrays::Expect(const ProgramEntry& entry, int value, Record record) {
  Expected expected = ExpectFromGang(entry, value, std::move(record));
  fabric_->gangs().Await(expected.record);
  return expected;
}

StepArrays::Expected StepArrays::ExpectFromGang(const ProgramEntry& entry, int value, Record record) const {
  Expected expected{std::move(record), {}};
  int shard = 0;
  for (const ProgramEntry::Place& place : *entry.steps->places[value]) {
    auto& expect = *expected.commands[place.host].mutable_expect();
    expect.set_session(context_->id().v);
    expect.set_array(expected.record->id().v);
    auto& placement = *expect.add_placements();
    placement.set_shard(shard++);
    placement.set_local_device(place.local_device);
    placement.set_memory_kind(expected.record->spec().sharding.memory_kind());
  }
  for (const auto& [host, command] : expected.commands) Send(host, command);
  return expected;
}

void StepArrays::Announce(const Expected& expected) {
  for (const auto& [host, expect] : expected.commands) {
    Command command;
    command.mutable_expect()->set_array(expected.record->id().v);
    command.mutable_expect()->set_under_way(true);
    Send(host, std::move(command));
  }
}

void StepArrays::Fulfil(NameScope& names, const Expected& expected, const absl::StatusOr<Record>& source) {
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric_->outbox().HasHost(host)) {
      expected.record->Poison(WhyGone(expected.record));
      continue;
    }
    Command command;
    auto& fulfil = *command.mutable_fulfil();
    fulfil.set_op(context_->NameOp(names, host, {expected.record}).v);
    fulfil.set_session(context_->id().v);
    fulfil.set_array(expected.record->id().v);
    if (source.ok())
      fulfil.set_source((*source)->id().v);
    else
      session::ToProto(source.status(), fulfil.mutable_status());
    Send(host, std::move(command));
  }
  if (source.ok()) (*source)->Donate();
  expected.record->OnDone(absl::OkStatus());
}

void StepArrays::FulfilWith(NameScope& names, const Expected& expected, const Record& source) {
  if (source->status().ok())
    Fulfil(names, expected, source);
  else
    Fulfil(names, expected, source->status());
}

StepArrays::Record StepArrays::NewSource(NameScope& names, const Expected& expected) {
  return std::make_shared<buffers::LogicalArray>(ArrayId(names.NextId()), context_->id(), expected.record->shared_spec(), 1,
                                                 nullptr);
}

// Returns the command that puts this number of bytes, as `record`, at the places of the expected array on one host.
Command StepArrays::PutCommand(OpId op, const Record& record, const Command& expect, uint64_t bytes) const {
  Command command;
  auto& put = *command.mutable_put();
  put.set_op(op.v);
  put.set_session(context_->id().v);
  put.set_array(record->id().v);
  put.set_dtype(static_cast<int32_t>(record->spec().dtype));
  put.mutable_dims()->Add(record->spec().dims.begin(), record->spec().dims.end());
  *put.mutable_placements() = expect.expect().placements();
  put.set_total_bytes(bytes);
  return command;
}

StepArrays::Record StepArrays::PutBytes(NameScope& names, const Expected& expected, const Bytes& data) {
  const Record record = NewSource(names, expected);
  const uint64_t transfer = names.NextId();
  const bool chunks = data.size() > kChunkBytes;
  fabric_->CountArrayBytes(data.size());
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric_->outbox().HasHost(host)) continue;
    Command command = PutCommand(context_->NameOp(names, host, {record}), record, expect, data.size());
    command.mutable_put()->set_transfer(transfer);
    command.mutable_put()->set_payload_bytes(chunks ? 0 : data.size());
    Send(host, std::move(command), chunks ? std::vector<Bytes>() : std::vector<Bytes>{data});
    if (chunks) fabric_->SendBytes(host, context_->id(), transfer, data);
  }
  record->OnDone(absl::OkStatus());
  return record;
}

std::shared_ptr<void> StepArrays::LaneBuffer(uint64_t buffer) {
  if (buffer == 0) return nullptr;
  lanes_->Enter(buffer);
  return {nullptr, [this, alive = context_->alive(), buffer](void*) {
            if (!alive.expired()) lanes_->Leave(buffer);
          }};
}

StepArrays::Record StepArrays::PutFromLane(NameScope& names, const Expected& expected, const session::LaneResult& result) {
  const Record record = NewSource(names, expected);
  const std::shared_ptr<void> buffer = LaneBuffer(result.buffer);
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric_->outbox().HasHost(host)) continue;
    lanes_->Open(host);
    const OpId op = context_->NameOp(names, host, {record}, [buffer](const absl::Status&, auto) {});
    Command command = PutCommand(op, record, expect, result.bytes);
    command.mutable_put()->set_lane_buffer(result.buffer);
    Send(host, std::move(command));
  }
  record->OnDone(absl::OkStatus());
  return record;
}

void StepArrays::FetchValue(NameScope& names, const ProgramEntry& entry, int value, const Record& array,
                            ResultCallback<Bytes> done) {
  const uint64_t fetch = names.NextId();  // also if there is nothing to fetch: later names do not depend on it
  const HostId host = entry.steps->places[value]->front().host;
  const absl::StatusOr<int64_t> bytes = buffers::DenseBytes(array->spec().dtype, array->spec().dims);
  absl::Status status = fabric_->outbox().HasHost(host) ? bytes.status() : WhyGone(array);
  if (status.ok() && *bytes > fabric_->limits().staged_bytes) {
    status = absl::ResourceExhaustedError(absl::StrCat("a value of ", *bytes,
                                                       " bytes is more than the controller takes for a client, ",
                                                       fabric_->limits().staged_bytes, " bytes"));
  }
  if (!status.ok()) return context_->Answer<Bytes>(std::move(done), status);
  Command command;
  command.mutable_fetch()->set_fetch(fetch);
  command.mutable_fetch()->set_array(array->id().v);
  fabric_->fetches().Add(command.fetch().fetch(), host, context_->id(), static_cast<uint64_t>(*bytes), std::move(done));
  Send(host, std::move(command));
}

}  // namespace pw::controller
