#include "plugins/pjrt_cpu/status.h"

namespace pw::pjrt_cpu {

absl::Status RegisterHandlers() { return absl::OkStatus(); }

}  // namespace pw::pjrt_cpu
