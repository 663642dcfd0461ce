// XLA's collectives over several processes: groups (group.h) behind XLA's interface.
//
// A launch that spans processes has a number with kSpanningLaunch, and meets in groups, those of one process included: a group can
// be aborted, XLA's own meetings cannot. All other launches use the collectives of one process (all_reduce.h), as in a client that is alone.
#pragma once

#include <memory>

#include "plugins/pjrt_cpu/net/network.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"

namespace pw::pjrt_cpu {

std::shared_ptr<xla::cpu::CpuCollectives> MakeSpanningCollectives(std::shared_ptr<Network> network);

}  // namespace pw::pjrt_cpu
