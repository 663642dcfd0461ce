#include "plugins/pjrt_cpu/collectives.h"

#include <utility>

#include "plugins/pjrt_cpu/all_reduce.h"
#include "plugins/pjrt_cpu/net/spanning.h"

namespace pw::pjrt_cpu {

std::shared_ptr<xla::cpu::CpuCollectives> MakeCollectives(std::shared_ptr<Network> network) {
  return network == nullptr ? MakeInProcessCollectives() : MakeSpanningCollectives(std::move(network));
}

}  // namespace pw::pjrt_cpu
