// Converts between the messages of session.proto and the types of session.h; the client and ServedSession use it. Pure. The functions that
// return a StatusOr validate their input; an INVALID_ARGUMENT names the fault.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/remap_plan.h"
#include "pathways/gang/share.h"
#include "pathways/resource/placement.h"
#include "pathways/session/profiles.h"
#include "pathways/session/reports.h"
#include "pathways/session/restored_slices.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

namespace v1 = ::pathways::v1;

void ToProto(const absl::Status& status, v1::Status* proto);
absl::Status StatusFrom(const v1::Status& proto);

std::vector<DeviceId> DevicesFrom(const google::protobuf::RepeatedField<int32_t>& ids);
void ToProto(absl::Span<const DeviceId> devices, google::protobuf::RepeatedField<int32_t>* ids);

void ToProto(const buffers::ArraySpec& spec, v1::ArraySpec* proto);
absl::StatusOr<buffers::ArraySpec> SpecFrom(const v1::ArraySpec& proto);

v1::CopySemantics ToProto(CopySemantics semantics);
CopySemantics SemanticsFrom(v1::CopySemantics proto);

void ToProto(const HostShard& source, v1::MakeArray::Source* proto);
absl::StatusOr<HostShard> SourceFrom(const v1::MakeArray::Source& proto);

void ToProto(const buffers::RemapPlan& plan, google::protobuf::RepeatedPtrField<v1::RemapStep>* proto);
buffers::RemapPlan PlanFrom(const google::protobuf::RepeatedPtrField<v1::RemapStep>& proto);

void ToProto(const ClusterInfo& info, v1::ClusterDescription* proto);
ClusterInfo ClusterFrom(const v1::ClusterDescription& proto);
void ToProto(const SpareDevices& spares, v1::DeviceList* proto);
SpareDevices SparesFrom(const v1::DeviceList& proto);

// Without the handle, which each side knows already.
void ToProto(const ExecutableInfo& info, v1::CompiledExecutable* proto);
absl::StatusOr<ExecutableInfo> ExecutableFrom(const v1::CompiledExecutable& proto);

void ToProto(const PublishedQuestion& question, v1::PublishedQuestion* proto);
absl::StatusOr<PublishedQuestion> PublishedQuestionFrom(const v1::PublishedQuestion& proto);

void ToProto(const resource::SliceRequest& request, v1::AddSlice* proto);
absl::StatusOr<resource::SliceRequest> SliceRequestFrom(const v1::AddSlice& proto);
// INVALID_ARGUMENT: the fields do not add up. Whether slices can be as they say is for Cluster to decide.
absl::StatusOr<RestoredSlices> RestoredSlicesFrom(const v1::RestoredSlices& proto);
void ToProto(const SliceState& state, v1::SliceReport* proto);
absl::StatusOr<SliceState> SliceStateFrom(const v1::SliceReport& proto);

void ToProto(const gang::ShareChange& change, v1::ChangeShare* proto);
gang::ShareChange ShareChangeFrom(const v1::ChangeShare& proto);

// Without the text of the trace, which is a payload.
void ToProto(const ClusterTrace& trace, v1::TraceSummary* proto);
ClusterTrace ClusterTraceFrom(const v1::TraceSummary& proto);
void ToProto(const ClusterProfile& profile, v1::ProfileSummary* proto);
ClusterProfile ClusterProfileFrom(const v1::ProfileSummary& proto);
void ToProto(const DrainReport& report, v1::DrainSummary* proto);
DrainReport DrainReportFrom(const v1::DrainSummary& proto);

}  // namespace pw::session
