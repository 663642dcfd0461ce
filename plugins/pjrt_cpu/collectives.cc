#include "plugins/pjrt_cpu/collectives.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/all_reduce.h"

namespace pw::pjrt_cpu {

absl::StatusOr<std::shared_ptr<xla::cpu::CpuCollectives>> MakeCollectives(const Options& options,
                                                                          const PJRT_Client_Create_Args& args) {
  if (options.num_nodes == 1) return MakeInProcessCollectives();
  return absl::UnimplementedError(
      absl::StrCat("libpjrt_cpu: num_nodes is ", options.num_nodes,
                   ", but one client spans the devices of one process only. Use one client per process."));
}

}  // namespace pw::pjrt_cpu
