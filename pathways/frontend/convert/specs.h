// Conversion of array specs, host layouts and remap plans from the wire.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt.pb.h"
#include "ifrt_proxy/types.pb.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/remap_plan.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

absl::StatusOr<buffers::ArraySpec> SpecFromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape,
                                                 const xla::ifrt::ShardingProto& sharding);
absl::StatusOr<buffers::ArraySpec> SpecFromProto(const xla::ifrt::ArraySpecProto& proto);

// `strides` may be null: dense row-major.
absl::StatusOr<controller::HostLayout> HostLayoutFromProto(const xla::ifrt::DTypeProto& dtype, const xla::ifrt::ShapeProto& shape,
                                                           const xla::ifrt::proto::ByteStrides* strides);

absl::StatusOr<buffers::RemapPlan> RemapPlanFromProto(const xla::ifrt::RemapPlanProto& proto);

controller::CopySemantics SemanticsFromProto(xla::ifrt::proto::ArrayCopySemantics semantics);

}  // namespace pw::frontend
