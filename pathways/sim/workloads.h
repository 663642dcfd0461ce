// Makes the workloads, one file for each kind (workload.h describes them).
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
