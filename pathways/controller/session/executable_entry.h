// A session's records of its executables. Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/controller/session.h"
#include "pathways/program/executable.h"
#include "pathways/session/host_function.h"

namespace pw::controller {

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that passed the check
  absl::Status gone;                                                // not OK after its slice was released: it cannot run any more
  std::shared_ptr<const CompileRequest> source;                     // to compile it again, for other hosts
  bool calls_back = false;                                          // it has host callbacks
  absl::Status unloaded = absl::OkStatus();                         // not OK while it is not on its hosts: the reason
  std::shared_ptr<const session::HostFunction> function = nullptr;  // of a Python function, without its text; else null
};

// Returns what a session tells its client of an executable.
std::shared_ptr<const ExecutableInfo> MakeInfo(const program::Executable& record, Handle handle);

}  // namespace pw::controller
