#include "pathways/trace/machine_clock.h"

#include <fstream>

namespace pw::trace {

std::string MachineClock() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, id);
  return id;
}

}  // namespace pw::trace
