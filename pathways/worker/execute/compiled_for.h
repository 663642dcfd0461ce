// CompiledFor: the devices, plugin, settings and CPU of compiled code, as a part of the compile cache's key (compile_cache.h).
#pragma once

#include <string>
#include <vector>

namespace pw::worker {

// Returns a text that names the kinds of the devices, the plugin's build and create options, and the CPU's instructions. The text
// also has the environment variables from which plugins take settings. `kinds`: of each device of this host, in order.
std::string CompiledFor(const std::vector<std::string>& kinds, const std::string& plugin,
                        const std::vector<std::string>& device_options);

// Returns the GNU build id of an ELF file, which names its contents; for a file without one, its size and the time of its last change.
std::string BuildOf(const std::string& file);

}  // namespace pw::worker
