// XLA's collectives over several processes: adapts groups (group.h) to XLA's interface.
//
// A launch that spans processes has a number with kSpanningLaunch. All its collectives use groups, even those inside one process,
// because a group can be aborted and XLA's own rendezvous cannot. All other launches use the collectives of one process
// (all_reduce.h).
#pragma once

#include <memory>

#include "plugins/pjrt_cpu/net/network.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"

namespace pw::pjrt_cpu {

std::shared_ptr<xla::cpu::CpuCollectives> MakeSpanningCollectives(std::shared_ptr<Network> network);

}  // namespace pw::pjrt_cpu
