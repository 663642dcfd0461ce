// Cleanup when a virtual slice is released.
#include <algorithm>

#include "pathways/controller/programs/program_errors.h"
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {

void SessionImpl::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  auto concerned = [&](const std::vector<DeviceId>& of) {
    return std::any_of(of.begin(), of.end(), [&](DeviceId device) { return devices.contains(device); });
  };
  executable_table_.OnSliceReleased(devices, error);
  for (auto& [handle, program] : programs_) {
    if (concerned(program->devices)) program->gone.Update(AtUserOf(program->program(), devices, error));
  }
  PoisonProgramResults(devices, error);
  for (const Record& record : arrays_.Records()) {
    if (record->OnDevicesLost(devices, error)) record->Free();
  }
}

}  // namespace pw::controller
