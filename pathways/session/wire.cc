#include "pathways/session/wire.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/unreachable_host.h"

namespace pw::session {
namespace {

using buffers::Dims;

Dims DimsFrom(const google::protobuf::RepeatedField<int64_t>& dims) { return Dims(dims.begin(), dims.end()); }

template <class Container>
void CopyTo(const Container& from, google::protobuf::RepeatedField<int64_t>* to) {
  to->Add(from.begin(), from.end());
}

absl::StatusOr<buffers::Sharding> ShardingFrom(const v1::ShardingSpec& proto) {
  std::vector<DeviceId> devices = DevicesFrom(proto.devices());
  if (devices.empty()) return absl::InvalidArgumentError("a sharding names no device");
  if (proto.tile_counts().empty()) return buffers::Sharding::Replicated(std::move(devices), proto.memory_kind());
  buffers::Tiles tiles;
  tiles.counts = DimsFrom(proto.tile_counts());
  tiles.tile_of_shard.assign(proto.tile_of_shard().begin(), proto.tile_of_shard().end());
  return buffers::Sharding::Tiled(std::move(devices), proto.memory_kind(), std::move(tiles));
}

void ShardingToProto(const buffers::Sharding& sharding, v1::ShardingSpec* proto) {
  ToProto(sharding.devices(), proto->mutable_devices());
  proto->set_memory_kind(sharding.memory_kind());
  CopyTo(sharding.tiles().counts, proto->mutable_tile_counts());
  proto->mutable_tile_of_shard()->Add(sharding.tiles().tile_of_shard.begin(), sharding.tiles().tile_of_shard.end());
}

void DeviceToProto(const DeviceInfo& device, v1::DeviceDescription* proto) {
  proto->set_id(device.id.v);
  proto->set_local_device_id(device.local_device_id);
  proto->set_local_hardware_id(device.local_hardware_id);
  proto->set_platform_name(device.platform_name);
  proto->set_kind(device.kind);
  proto->set_debug_string(device.debug_string);
  proto->set_to_string(device.to_string);
  for (MemoryId memory : device.memories) proto->add_memories(memory.v);
  proto->mutable_int_attributes()->insert(device.int_attributes.begin(), device.int_attributes.end());
  proto->mutable_string_attributes()->insert(device.string_attributes.begin(), device.string_attributes.end());
  for (const auto& [name, values] : device.list_attributes)
    CopyTo(values, (*proto->mutable_list_attributes())[name].mutable_values());
}

DeviceInfo DeviceFrom(const v1::DeviceDescription& proto) {
  DeviceInfo device;
  device.id = DeviceId(proto.id());
  device.local_device_id = proto.local_device_id();
  device.local_hardware_id = proto.local_hardware_id();
  device.platform_name = proto.platform_name();
  device.kind = proto.kind();
  device.debug_string = proto.debug_string();
  device.to_string = proto.to_string();
  for (int32_t memory : proto.memories()) device.memories.push_back(MemoryId(memory));
  device.int_attributes.insert(proto.int_attributes().begin(), proto.int_attributes().end());
  device.string_attributes.insert(proto.string_attributes().begin(), proto.string_attributes().end());
  for (const auto& [name, list] : proto.list_attributes()) device.list_attributes[name] = DimsFrom(list.values());
  return device;
}

void MemoryToProto(const MemoryInfo& memory, v1::MemoryDescription* proto) {
  proto->set_id(memory.id.v);
  proto->set_kind(memory.kind);
  proto->set_kind_id(memory.kind_id);
  ToProto(memory.devices, proto->mutable_devices());
  proto->set_debug_string(memory.debug_string);
  proto->set_to_string(memory.to_string);
}

MemoryInfo MemoryFrom(const v1::MemoryDescription& proto) {
  return {MemoryId(proto.id()),         proto.kind(),         proto.kind_id(),
          DevicesFrom(proto.devices()), proto.debug_string(), proto.to_string()};
}

void ListToProto(const std::vector<DeviceInfo>& devices, const std::vector<MemoryInfo>& memories, v1::DeviceList* proto) {
  for (const DeviceInfo& device : devices) DeviceToProto(device, proto->add_devices());
  for (const MemoryInfo& memory : memories) MemoryToProto(memory, proto->add_memories());
}

void ListFromProto(const v1::DeviceList& proto, std::vector<DeviceInfo>* devices, std::vector<MemoryInfo>* memories) {
  for (const auto& device : proto.devices()) devices->push_back(DeviceFrom(device));
  for (const auto& memory : proto.memories()) memories->push_back(MemoryFrom(memory));
}

void ValueToProto(const ValueInfo& value, v1::CompiledExecutable::Value* proto) {
  proto->set_dtype(static_cast<int>(value.dtype));
  CopyTo(value.shard_dims, proto->mutable_shard_dims());
  proto->set_op_sharding(value.op_sharding);
  proto->set_layout(value.layout);
  proto->set_memory_kind(value.memory_kind);
}

absl::StatusOr<ValueInfo> ValueFrom(const v1::CompiledExecutable::Value& proto) {
  PW_ASSIGN_OR_RETURN(const buffers::DType dtype, buffers::DTypeFromNumber(proto.dtype()));
  return ValueInfo{dtype, DimsFrom(proto.shard_dims()), proto.op_sharding(), proto.layout(), proto.memory_kind()};
}

void RangesToProto(const std::vector<buffers::ShardRange>& ranges,
                   google::protobuf::RepeatedPtrField<v1::RemapStep::Range>* proto) {
  for (const buffers::ShardRange& range : ranges) {
    auto* out = proto->Add();
    out->set_start(range.start);
    out->set_end(range.end);
    out->set_step(range.step);
  }
}

std::vector<buffers::ShardRange> RangesFrom(const google::protobuf::RepeatedPtrField<v1::RemapStep::Range>& proto) {
  std::vector<buffers::ShardRange> ranges;
  for (const auto& range : proto) ranges.push_back({range.start(), range.end(), range.step()});
  return ranges;
}

}  // namespace

void ToProto(const absl::Status& status, v1::Status* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
}

absl::Status StatusFrom(const v1::Status& proto) {
  absl::Status status = pw::StatusFrom(proto.code(), proto.message());
  return proto.has_unreachable_host() ? WithUnreachableHost(std::move(status), HostId(proto.unreachable_host())) : status;
}

std::vector<DeviceId> DevicesFrom(const google::protobuf::RepeatedField<int32_t>& ids) {
  std::vector<DeviceId> devices;
  devices.reserve(ids.size());
  for (int32_t id : ids) devices.push_back(DeviceId(id));
  return devices;
}

void ToProto(absl::Span<const DeviceId> devices, google::protobuf::RepeatedField<int32_t>* ids) {
  ids->Reserve(static_cast<int>(devices.size()));
  for (DeviceId device : devices) ids->Add(device.v);
}

void ToProto(const buffers::ArraySpec& spec, v1::ArraySpec* proto) {
  proto->set_dtype(static_cast<int>(spec.dtype));
  CopyTo(spec.dims, proto->mutable_dims());
  ShardingToProto(spec.sharding, proto->mutable_sharding());
  proto->set_layout(spec.layout);
}

absl::StatusOr<buffers::ArraySpec> SpecFrom(const v1::ArraySpec& proto) {
  buffers::ArraySpec spec;
  PW_ASSIGN_OR_RETURN(spec.dtype, buffers::DTypeFromNumber(proto.dtype()));
  spec.dims = DimsFrom(proto.dims());
  PW_ASSIGN_OR_RETURN(spec.sharding, ShardingFrom(proto.sharding()));
  spec.layout = proto.layout();
  PW_RETURN_IF_ERROR(buffers::Validate(spec));
  return spec;
}

v1::CopySemantics ToProto(CopySemantics semantics) {
  switch (semantics) {
    case CopySemantics::kAlwaysCopy:
      return v1::ALWAYS_COPY;
    case CopySemantics::kReuseInput:
      return v1::REUSE_INPUT;
    case CopySemantics::kDonateInput:
      return v1::DONATE_INPUT;
  }
  return v1::ALWAYS_COPY;
}

CopySemantics SemanticsFrom(v1::CopySemantics proto) {
  if (proto == v1::DONATE_INPUT) return CopySemantics::kDonateInput;
  return proto == v1::REUSE_INPUT ? CopySemantics::kReuseInput : CopySemantics::kAlwaysCopy;
}

void ToProto(const HostShard& source, v1::MakeArray::Source* proto) {
  proto->set_buffer(source.host_buffer);
  proto->set_dtype(static_cast<int>(source.layout.dtype));
  CopyTo(source.layout.dims, proto->mutable_dims());
  proto->set_strided(source.layout.byte_strides.has_value());
  if (source.layout.byte_strides.has_value()) CopyTo(*source.layout.byte_strides, proto->mutable_byte_strides());
  proto->mutable_shards()->Add(source.shards.begin(), source.shards.end());
  proto->set_by_lane(source.by_lane);
}

absl::StatusOr<HostShard> SourceFrom(const v1::MakeArray::Source& proto) {
  HostShard source;
  source.host_buffer = proto.buffer();
  PW_ASSIGN_OR_RETURN(source.layout.dtype, buffers::DTypeFromNumber(proto.dtype()));
  source.layout.dims = DimsFrom(proto.dims());
  if (proto.strided()) source.layout.byte_strides = DimsFrom(proto.byte_strides());
  source.shards.assign(proto.shards().begin(), proto.shards().end());
  source.by_lane = proto.by_lane();
  return source;
}

void ToProto(const buffers::RemapPlan& plan, google::protobuf::RepeatedPtrField<v1::RemapStep>* proto) {
  for (const buffers::RemapMapping& mapping : plan.mappings) {
    auto* step = proto->Add();
    step->set_in_array(mapping.in_array);
    step->set_out_array(mapping.out_array);
    RangesToProto(mapping.from, step->mutable_from());
    RangesToProto(mapping.to, step->mutable_to());
  }
  for (const buffers::RemapDevices& by_device : plan.by_device) {
    auto* step = proto->Add();
    step->set_in_array(by_device.in_array);
    step->set_out_array(by_device.out_array);
    for (DeviceId device : by_device.devices) step->add_devices(device.v);
  }
}

buffers::RemapPlan PlanFrom(const google::protobuf::RepeatedPtrField<v1::RemapStep>& proto) {
  buffers::RemapPlan plan;
  for (const auto& step : proto) {
    if (step.devices().empty()) {
      plan.mappings.push_back({step.in_array(), step.out_array(), RangesFrom(step.from()), RangesFrom(step.to())});
      continue;
    }
    buffers::RemapDevices& by_device = plan.by_device.emplace_back();
    by_device.in_array = step.in_array();
    by_device.out_array = step.out_array();
    for (int32_t device : step.devices()) by_device.devices.push_back(DeviceId(device));
  }
  return plan;
}

void ToProto(const ClusterInfo& info, v1::ClusterDescription* proto) {
  proto->set_platform_name(info.platform_name);
  proto->set_platform_version(info.platform_version);
  proto->set_stablehlo_version(info.stablehlo_version);
  proto->set_xla_version(info.xla_version);
  ListToProto(info.devices, info.memories, proto->mutable_devices());
}

ClusterInfo ClusterFrom(const v1::ClusterDescription& proto) {
  ClusterInfo info;
  info.platform_name = proto.platform_name();
  info.platform_version = proto.platform_version();
  info.stablehlo_version = proto.stablehlo_version();
  info.xla_version = proto.xla_version();
  ListFromProto(proto.devices(), &info.devices, &info.memories);
  return info;
}

void ToProto(const SpareDevices& spares, v1::DeviceList* proto) { ListToProto(spares.devices, spares.memories, proto); }

SpareDevices SparesFrom(const v1::DeviceList& proto) {
  SpareDevices spares;
  ListFromProto(proto, &spares.devices, &spares.memories);
  return spares;
}

void ToProto(const ExecutableInfo& info, v1::CompiledExecutable* proto) {
  proto->set_name(info.name);
  proto->set_fingerprint(info.fingerprint);
  ToProto(info.devices, proto->mutable_devices());
  for (const ValueInfo& value : info.parameters) ValueToProto(value, proto->add_parameters());
  for (const ValueInfo& value : info.outputs) ValueToProto(value, proto->add_outputs());
  for (const buffers::ArraySpec& spec : info.output_specs) ToProto(spec, proto->add_output_specs());
  proto->mutable_donated_inputs()->Add(info.donated_inputs.begin(), info.donated_inputs.end());
  proto->set_memory_stats(info.memory_stats);
  proto->set_code_bytes(info.code_bytes);
}

absl::StatusOr<ExecutableInfo> ExecutableFrom(const v1::CompiledExecutable& proto) {
  ExecutableInfo info;
  info.name = proto.name();
  info.fingerprint = proto.fingerprint();
  info.devices = DevicesFrom(proto.devices());
  for (const auto& value : proto.parameters()) {
    PW_ASSIGN_OR_RETURN(ValueInfo parameter, ValueFrom(value));
    info.parameters.push_back(std::move(parameter));
  }
  for (const auto& value : proto.outputs()) {
    PW_ASSIGN_OR_RETURN(ValueInfo output, ValueFrom(value));
    info.outputs.push_back(std::move(output));
  }
  for (const auto& spec : proto.output_specs()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec output, SpecFrom(spec));
    info.output_specs.push_back(std::move(output));
  }
  info.donated_inputs.assign(proto.donated_inputs().begin(), proto.donated_inputs().end());
  info.memory_stats = proto.memory_stats();
  info.code_bytes = proto.code_bytes();
  return info;
}

void ToProto(const PublishedQuestion& question, v1::PublishedQuestion* proto) {
  proto->set_name(question.name);
  proto->set_seconds(absl::ToDoubleSeconds(question.limit));
  switch (question.what) {
    case PublishedQuestion::What::kClaim:
      return proto->set_claim(true);
    case PublishedQuestion::What::kAwait:
      return proto->set_await_above(question.above);
    case PublishedQuestion::What::kWithdraw:
      return proto->set_withdraw(true);
  }
}

absl::StatusOr<PublishedQuestion> PublishedQuestionFrom(const v1::PublishedQuestion& proto) {
  PublishedQuestion question;
  question.name = proto.name();
  if (!(proto.seconds() >= 0 && proto.seconds() <= kLongestWaitSeconds))
    return absl::InvalidArgumentError(absl::StrCat("a version is awaited for 0 to ", kLongestWaitSeconds, " seconds at a time"));
  question.limit = absl::Seconds(proto.seconds());
  switch (proto.what_case()) {
    case v1::PublishedQuestion::kClaim:
      question.what = PublishedQuestion::What::kClaim;
      return question;
    case v1::PublishedQuestion::kAwaitAbove:
      question.above = proto.await_above();
      return question;
    case v1::PublishedQuestion::kWithdraw:
      question.what = PublishedQuestion::What::kWithdraw;
      return question;
    case v1::PublishedQuestion::WHAT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a question about published arrays asks nothing");
}

void ToProto(const resource::SliceRequest& request, v1::AddSlice* proto) {
  proto->set_count(request.count);
  CopyTo(request.shape, proto->mutable_shape());
  proto->set_platform(request.platform);
  proto->set_kind(request.kind);
  proto->set_island(request.island);
  if (request.beside.has_value()) proto->set_beside(request.beside->v);
  proto->set_memory_per_device(request.memory_per_device);
  proto->set_hosts(request.hosts == resource::HostChoice::kSpread ? v1::AddSlice::SPREAD
                   : request.hosts == resource::HostChoice::kPack ? v1::AddSlice::PACK
                                                                  : v1::AddSlice::ANY);
  proto->set_exclusive(request.exclusive);
}

absl::StatusOr<resource::SliceRequest> SliceRequestFrom(const v1::AddSlice& proto) {
  resource::SliceRequest request;
  request.count = proto.count();
  request.shape = DimsFrom(proto.shape());
  request.platform = proto.platform();
  request.kind = proto.kind();
  request.island = proto.island();
  if (proto.has_beside()) request.beside = SliceId(proto.beside());
  request.memory_per_device = proto.memory_per_device();
  request.hosts = proto.hosts() == v1::AddSlice::SPREAD ? resource::HostChoice::kSpread
                  : proto.hosts() == v1::AddSlice::PACK ? resource::HostChoice::kPack
                                                        : resource::HostChoice::kAny;
  request.exclusive = proto.exclusive();
  if (const std::string wrong = resource::Malformed(request); !wrong.empty()) return absl::InvalidArgumentError(wrong);
  return request;
}

void ToProto(const SliceState& state, v1::SliceReport* proto) {
  proto->set_slice(state.slice.v);
  proto->set_what(state.what == SliceState::What::kPlaced    ? v1::SliceReport::PLACED
                  : state.what == SliceState::What::kRefused ? v1::SliceReport::REFUSED
                                                             : v1::SliceReport::WAITING);
  ToProto(state.devices, proto->mutable_devices());
  ToProto(state.physical, proto->mutable_physical());
  for (const std::string& host : state.hosts) proto->add_hosts(host);
  proto->set_island(state.island);
  proto->set_epoch(state.epoch);
  proto->set_position(state.position);
  proto->set_text(state.text);
}

absl::StatusOr<SliceState> SliceStateFrom(const v1::SliceReport& proto) {
  SliceState state;
  state.slice = SliceId(proto.slice());
  state.what = proto.what() == v1::SliceReport::PLACED    ? SliceState::What::kPlaced
               : proto.what() == v1::SliceReport::REFUSED ? SliceState::What::kRefused
                                                          : SliceState::What::kWaiting;
  state.devices = DevicesFrom(proto.devices());
  state.physical = DevicesFrom(proto.physical());
  state.hosts.assign(proto.hosts().begin(), proto.hosts().end());
  if (state.physical.size() != state.devices.size() || state.hosts.size() != state.devices.size())
    return absl::InvalidArgumentError("a slice has devices whose place is not said");
  state.island = proto.island();
  state.epoch = proto.epoch();
  state.position = proto.position();
  state.text = proto.text();
  return state;
}

absl::StatusOr<RestoredSlices> RestoredSlicesFrom(const v1::RestoredSlices& proto) {
  RestoredSlices restored;
  if (proto.kinds_size() != proto.counts_size() || proto.released_devices_size() != proto.released_physical_size())
    return absl::InvalidArgumentError("virtual devices are not fully described");
  restored.first = DeviceId(proto.first_device());
  for (int i = 0; i < proto.kinds_size(); ++i) restored.kinds.push_back({proto.kinds(i), proto.counts(i)});
  for (const auto& slice : proto.slices()) {
    PW_ASSIGN_OR_RETURN(resource::SliceRequest request, SliceRequestFrom(slice.asked()));
    PW_ASSIGN_OR_RETURN(SliceState state, SliceStateFrom(slice.report()));
    restored.slices.push_back({std::move(request), std::move(state), slice.leaves()});
  }
  for (int i = 0; i < proto.released_devices_size(); ++i)
    restored.released.push_back({DeviceId(proto.released_devices(i)), DeviceId(proto.released_physical(i))});
  restored.last = SliceId(proto.last_slice());
  return restored;
}

void ToProto(const gang::ShareChange& change, v1::ChangeShare* proto) {
  if (change.weight.has_value()) proto->set_weight(*change.weight);
  if (change.priority.has_value()) proto->set_priority(*change.priority);
}

gang::ShareChange ShareChangeFrom(const v1::ChangeShare& proto) {
  gang::ShareChange change;
  if (proto.has_weight()) change.weight = proto.weight();
  if (proto.has_priority()) change.priority = proto.priority();
  return change;
}

void ToProto(const ClusterTrace& trace, v1::TraceSummary* proto) {
  proto->set_events(trace.events);
  proto->set_events_not_recorded(trace.events_not_recorded);
  for (const std::string& host : trace.silent_hosts) proto->add_silent_hosts(host);
}
ClusterTrace ClusterTraceFrom(const v1::TraceSummary& proto) {
  ClusterTrace trace;
  trace.events = proto.events();
  trace.events_not_recorded = proto.events_not_recorded();
  trace.silent_hosts.assign(proto.silent_hosts().begin(), proto.silent_hosts().end());
  return trace;
}

void ToProto(const ClusterProfile& profile, v1::ProfileSummary* proto) {
  for (const ClusterProfile::Host& host : profile.hosts) {
    auto* out = proto->add_hosts();
    out->set_name(host.name);
    out->set_bytes(host.bytes);
    out->set_missing(host.missing);
  }
  ToProto(profile.trace, proto->mutable_trace());
}
ClusterProfile ClusterProfileFrom(const v1::ProfileSummary& proto) {
  ClusterProfile profile;
  for (const auto& host : proto.hosts()) profile.hosts.push_back({host.name(), host.bytes(), host.missing()});
  profile.trace = ClusterTraceFrom(proto.trace());
  return profile;
}

void ToProto(const DrainReport& report, v1::DrainSummary* proto) {
  proto->set_host(report.host);
  for (SliceId slice : report.moved) proto->add_moved(slice.v);
  for (const auto& [slice, why] : report.stuck) {
    auto* stuck = proto->add_stuck();
    stuck->set_slice(slice.v);
    stuck->set_why(why);
  }
}

DrainReport DrainReportFrom(const v1::DrainSummary& proto) {
  DrainReport report;
  report.host = proto.host();
  for (uint64_t slice : proto.moved()) report.moved.push_back(SliceId(slice));
  for (const auto& stuck : proto.stuck()) report.stuck.emplace_back(SliceId(stuck.slice()), stuck.why());
  return report;
}

}  // namespace pw::session
