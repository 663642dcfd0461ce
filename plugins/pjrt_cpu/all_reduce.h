// Small all-reduces between the devices of one process.
//
// The last device to arrive reduces for all, in rank order, as XLA's own collectives do: the results are bit-identical. Earlier devices
// wait with a Waiter, so a launch whose devices are fibers of one thread (fibers.h) costs no sleep or wake-up. Large reductions and rare
// types are left to XLA, which shares the work between threads.
#pragma once

#include <cstddef>
#include <memory>

#include "xla/backends/cpu/collectives/cpu_collectives.h"
#include "xla/core/collectives/reduction_kind.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

// Returns XLA's in-process collectives with these all-reduces.
std::shared_ptr<xla::cpu::CpuCollectives> MakeInProcessCollectives();

// Returns whether an all-reduce of this size is done here. All devices get the same answer, because they run the same program.
bool ReducesHere(xla::PrimitiveType type, xla::ReductionKind kind, size_t count);

}  // namespace pw::pjrt_cpu
