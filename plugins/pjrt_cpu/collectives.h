// Chooses the implementation of collectives for a client.
#pragma once

#include <memory>

#include "plugins/pjrt_cpu/net/network.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"

namespace pw::pjrt_cpu {

// One process: the collectives of all_reduce.h. Several: those of net/spanning.h.
std::shared_ptr<xla::cpu::CpuCollectives> MakeCollectives(std::shared_ptr<Network> network);

}  // namespace pw::pjrt_cpu
