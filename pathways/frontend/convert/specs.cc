#include "pathways/frontend/convert/specs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/dtype.h"
#include "pathways/frontend/convert/layout.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/convert/version.h"

namespace pw::frontend {
namespace {

buffers::Dims DimsOf(const xla::ifrt::ShapeProto& shape) { return {shape.dims().begin(), shape.dims().end()}; }

absl::Status AddRanges(const google::protobuf::RepeatedField<int64_t>& start, const google::protobuf::RepeatedField<int64_t>& end,
                       const google::protobuf::RepeatedField<int64_t>& step, std::vector<buffers::ShardRange>& ranges) {
  if (start.size() != end.size() || start.size() != step.size()) {
    return absl::InvalidArgumentError("a remap plan has ranges without a start, an end or a step");
  }
  for (int i = 0; i < start.size(); ++i) ranges.push_back({start[i], end[i], step[i]});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<buffers::ArraySpec> SpecFromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape,
                                                 const xla::ifrt::ShardingProto& sharding) {
  buffers::ArraySpec spec;
  PW_ASSIGN_OR_RETURN(spec.dtype, DTypeFromProto(dtype));
  spec.dims = DimsOf(shape);
  PW_ASSIGN_OR_RETURN(spec.sharding, ShardingFromProto(sharding, spec.dims));
  return spec;
}

absl::StatusOr<buffers::ArraySpec> SpecFromProto(const xla::ifrt::ArraySpecProto& proto) {
  PW_RETURN_IF_ERROR(CheckVersion("array specs", proto.version_number()));
  PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFromProto(proto.dtype(), proto.shape(), proto.sharding()));
  if (proto.has_layout()) {
    PW_ASSIGN_OR_RETURN(spec.layout, LayoutFromText(proto.layout(), static_cast<int>(spec.dims.size())));
  }
  return spec;
}

absl::StatusOr<controller::HostLayout> HostLayoutFromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape,
                                                           const xla::ifrt::proto::ByteStrides* strides) {
  controller::HostLayout layout;
  PW_ASSIGN_OR_RETURN(layout.dtype, DTypeFromProto(dtype));
  layout.dims = DimsOf(shape);
  if (strides == nullptr) return layout;
  if (strides->strides_size() != shape.dims_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(strides->strides_size(), " byte strides were given for an array of rank ", shape.dims_size()));
  }
  layout.byte_strides.emplace(strides->strides().begin(), strides->strides().end());
  return layout;
}

absl::StatusOr<buffers::RemapPlan> RemapPlanFromProto(const xla::ifrt::RemapPlanProto& proto) {
  buffers::RemapPlan plan;
  PW_RETURN_IF_ERROR(CheckVersion("remap plans", proto.version_number(), kNewestRemapPlan));
  if (proto.mappings_size() > 0 && proto.input_devices_for_output_size() > 0) {
    return absl::InvalidArgumentError("a remap plan names shards both by number and by device");
  }
  for (const auto& output : proto.input_devices_for_output()) {
    for (const auto& input : output.input_devices()) {
      buffers::RemapDevices& entry = plan.by_device.emplace_back();
      entry.in_array = input.in_array();
      entry.out_array = output.out_array();
      for (int32_t id : input.device_list().device_ids()) entry.devices.push_back(DeviceId(id));
    }
  }
  for (const auto& in : proto.mappings()) {
    buffers::RemapMapping& mapping = plan.mappings.emplace_back();
    mapping.in_array = in.in_array();
    mapping.out_array = in.out_array();
    PW_RETURN_IF_ERROR(AddRanges(in.from_start(), in.from_end(), in.from_step(), mapping.from));
    PW_RETURN_IF_ERROR(AddRanges(in.to_start(), in.to_end(), in.to_step(), mapping.to));
  }
  return plan;
}

controller::CopySemantics SemanticsFromProto(xla::ifrt::proto::ArrayCopySemantics semantics) {
  switch (semantics) {
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_REUSE_INPUT:
      return controller::CopySemantics::kReuseInput;
    case xla::ifrt::proto::ARRAY_COPY_SEMANTICS_DONATE_INPUT:
      return controller::CopySemantics::kDonateInput;
    default:
      return controller::CopySemantics::kAlwaysCopy;
  }
}

}  // namespace pw::frontend
