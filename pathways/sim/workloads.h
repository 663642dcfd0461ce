// The kinds of workload, one file each (workload.h says what they do).
#pragma once

#include <memory>

#include "pathways/sim/workload.h"

namespace pw::sim {

std::unique_ptr<Workload> MakeChain(const WorkloadContext& context, const WorkloadSpec& spec);
std::unique_ptr<Workload> MakePipeline(const WorkloadContext& context, const WorkloadSpec& spec);
std::unique_ptr<Workload> MakeMix(const WorkloadContext& context, const WorkloadSpec& spec);
std::unique_ptr<Workload> MakeTraining(const WorkloadContext& context, const WorkloadSpec& spec);
std::unique_ptr<Workload> MakeExchange(const WorkloadContext& context, const WorkloadSpec& spec);

}  // namespace pw::sim
