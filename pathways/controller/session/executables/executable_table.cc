#include "pathways/controller/session/executables/executable_table.h"

#include <algorithm>

#include "pathways/base/sorted_keys.h"

namespace pw::controller {
namespace {

ValueInfo DescribeValue(const program::Value& value) {
  return {value.dtype, value.shard_dims, value.op_sharding, value.layout, value.memory_kind};
}

// Returns what a session tells its client of an executable.
std::shared_ptr<const ExecutableInfo> Describe(const program::Executable& record, Handle handle) {
  auto info = std::make_shared<ExecutableInfo>();
  info->handle = handle;
  info->name = record.name;
  info->fingerprint = record.fingerprint;
  info->devices = record.devices;
  for (const auto& value : record.parameters) info->parameters.push_back(DescribeValue(value));
  for (const auto& value : record.outputs) info->outputs.push_back(DescribeValue(value));
  info->output_specs = *record.output_specs;
  info->donated_inputs = record.donated_inputs;
  info->memory_stats = record.memory_stats;
  info->code_bytes = record.code_bytes;
  return info;
}

}  // namespace

ExecutableTable::Info ExecutableTable::Add(ExecutableEntry entry) {
  const Handle handle = context_->arrays().NewHandle();
  entry.info = Describe(*entry.record, handle);
  entry.accepted.resize(entry.record->parameters.size());
  Info info = entry.info;
  entries_.insert({handle, std::move(entry)});
  return info;
}

ExecutableTable::Info ExecutableTable::AddUnusable(std::vector<DeviceId> devices, const absl::Status& why) {
  auto record = std::make_shared<program::Executable>();
  record->id = ExecutableId(context_->fabric()->NextId());
  record->owner = context_->id();
  record->devices = std::move(devices);
  record->output_specs = std::make_shared<const std::vector<buffers::ArraySpec>>();
  ExecutableEntry entry;
  entry.record = std::move(record);
  entry.gone = entry.unloaded = why;
  return Add(std::move(entry));
}

std::vector<Handle> ExecutableTable::Handles() const { return SortedKeys(entries_); }

void ExecutableTable::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  for (auto& [handle, entry] : entries_) {
    const std::vector<DeviceId>& of = entry.record->devices;
    if (std::any_of(of.begin(), of.end(), [&](DeviceId device) { return devices.contains(device); })) entry.gone.Update(error);
  }
}

void ExecutableTable::DropFromHosts(const program::Executable& record) {
  context_->fabric()->gangs().ForgetExecutable(record.id);
  ::pathways::v1::CleanUp what;
  what.add_executables(record.id.v);
  context_->fabric()->clean_ups().Add(context_->id(), record.hosts, std::move(what));
}

}  // namespace pw::controller
