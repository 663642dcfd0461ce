// Small all-reduces among the devices of one process.
//
// Whoever comes last reduces for everybody, in rank order, as XLA's own collectives do: the same bits. Who comes earlier waits with
// a Waiter, so a launch whose devices are fibers of one thread (fibers.h) costs no sleep and no wake-up. Large reductions and rare
// types are left to XLA's own, which shares the work between the threads.
#pragma once

#include <cstddef>
#include <memory>

#include "xla/backends/cpu/collectives/cpu_collectives.h"
#include "xla/core/collectives/reduction_kind.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

// XLA's in-process collectives with these all-reduces.
std::shared_ptr<xla::cpu::CpuCollectives> MakeInProcessCollectives();

// Whether an all-reduce of that many elements is done here: the same answer for all devices, as they run the same program.
bool ReducesHere(xla::PrimitiveType type, xla::ReductionKind kind, size_t count);

}  // namespace pw::pjrt_cpu
