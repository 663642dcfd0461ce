// KeptPrograms: compiled programs that have outlived the Worker that compiled them. A worker that has lost its controller keeps them for
// the next one (controller_link.h), so that a Compile of the same program for the same devices is answered without compiling.
//
// Invariants:
//   KP-1  an entry is used only for the same program, options, devices and processes
//   KP-2  programs that call functions of a client are not kept: the calls belong to a session
// Immutable once it is shared: any thread may read it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/device/device.h"
#include "pathways/worker/execute/compile_cache.h"

namespace pw::worker {

using KeptPrograms = std::map<std::string, std::shared_ptr<device::LoadedProgram>>;
using KeptProgramsRef = std::shared_ptr<const KeptPrograms>;  // null: none

// Returns the name of a program among those that are kept; empty: it is not kept. `cache_key`: CompileCache::Key of the request. That key leaves
// out the addresses of other processes, because they change at every start. A loaded program has them in it.
inline std::string KeptName(const device::CompileRequest& request, const std::string& cache_key) {
  if (request.host_callbacks) return "";
  std::string name = cache_key;
  for (const device::Position& position : request.positions)
    absl::StrAppend(&name, " ", position.process.size(), ":", position.process, ".", position.device);
  return name;
}

}  // namespace pw::worker
