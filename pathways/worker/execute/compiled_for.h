// CompiledFor: all that compiled code depends on besides the program and its options, a part of the compile cache's key (compile_cache.h).
#pragma once

#include <string>
#include <vector>

namespace pw::worker {

// Returns a text that names the kinds of all devices, the build and the create options of the plugin, the variables of the environment from which
// plugins take settings, and the instructions that the CPU has. `kinds`: of each device of this host, in order.
std::string CompiledFor(const std::vector<std::string>& kinds, const std::string& plugin, const std::vector<std::string>& plugin_options);

// Returns the GNU build id of an ELF file, which names its contents; for a file without one, its size and the time of its last change.
std::string BuildOf(const std::string& file);

}  // namespace pw::worker
