// {"hostMemoryRequest": {"device_ids": [d], "machine": m}}: the argument, an array that device d holds whole, in shared memory of this machine.
//
// `machine` is the client's (MachineIdentity): UNIMPLEMENTED unless it is this server's too. The output says where: an array u8[48] on the
// same device, six numbers of 64 bits (little endian): process, descriptor, device and inode of the file, offset and bytes in it
// (net/shared_memory.h). Process 0: it is not to be had so (the array is small, its error is the answer to reading it in the ordinary way), and the
// client reads the array as any other. What comes from a host of another machine is copied into such memory here.
//
// An execution whose argument is such an output releases the memory instead; its own output is all zeros.
//
// Invariant HM-1: the memory stays, and counts as staged by the client, until it is released or the session ends.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

// "BOOT PIDS": the kernel's boot id, and the inode of the namespace of process numbers. Where both agree, a process number means the same
// process. Empty where the kernel does not tell.
std::string MachineIdentity();

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeHostMemoryProgram(const JsonObject& request);

}  // namespace pw::frontend
