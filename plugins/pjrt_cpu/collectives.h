// MakeCollectives: chooses the implementation of collectives for a client.
#pragma once

#include <memory>

#include "plugins/pjrt_cpu/net/network.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"

namespace pw::pjrt_cpu {

// Returns the collectives of all_reduce.h for one process, and of net/spanning.h for several. `network`: null for one process.
std::shared_ptr<xla::cpu::CpuCollectives> MakeCollectives(std::shared_ptr<Network> network);

}  // namespace pw::pjrt_cpu
