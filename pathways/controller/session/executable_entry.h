// A session's records of its executables. Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/controller/session.h"
#include "pathways/program/executable.h"

namespace pw::controller {

// The source of an executable on virtual devices, and the physical devices that they were bound to at the time.
struct CompileSource {
  std::shared_ptr<const CompileRequest> request;
  std::vector<DeviceId> physical;
};

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that passed the check
  absl::Status gone;                                                // not OK after its slice was released: it cannot run any more
  std::shared_ptr<const CompileRequest> source;                     // set if it is on virtual devices: to compile it again
  bool calls_back = false;                                          // it has host callbacks
};

}  // namespace pw::controller
