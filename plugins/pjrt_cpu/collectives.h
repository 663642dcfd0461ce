// How devices reduce together.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "plugins/pjrt_cpu/options.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

// For one process: those of all_reduce.h. `args` holds the host's key-value callbacks, through which processes find each other; they stay valid as
// long as the client. Several processes: UNIMPLEMENTED until the network collectives exist.
absl::StatusOr<std::shared_ptr<xla::cpu::CpuCollectives>> MakeCollectives(const Options& options,
                                                                          const PJRT_Client_Create_Args& args);

}  // namespace pw::pjrt_cpu
