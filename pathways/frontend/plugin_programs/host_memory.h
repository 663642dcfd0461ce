// The plugin program that tells a client on this machine where the contents of an array lie in shared memory.
//
// {"hostMemoryRequest": {"device_ids": [d], "machine": m}}: the argument is an array that device d holds whole. `machine` is the
// client's MachineIdentity: UNIMPLEMENTED unless it is this server's too. The output is an array u8[48] on the same device. It has six
// little-endian numbers of 64 bits: process, descriptor, device and inode of the file, offset and bytes in it
// (net/shared/shared_memory.h). Process 0: the contents are not in shared memory (a small array, an error, no memory), and the
// client reads the array as any other. Contents from a host of another machine are copied into shared memory here.
//
// An execution whose argument is such an output releases the memory; its own output is all zeros.
//
// Invariant HM-1: the memory stays, and counts as staged by the client, until it is released or the session ends.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

// Returns "BOOT PIDS": the kernel's boot id, and the inode of the namespace of process numbers. If both agree, equal process
// numbers mean the same process. Returns "" if the kernel does not tell.
std::string MachineIdentity();

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeHostMemoryProgram(const JsonObject& request);

}  // namespace pw::frontend
