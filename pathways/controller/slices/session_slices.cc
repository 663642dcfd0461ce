// Cleanup when a virtual slice is released.
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {

void SessionImpl::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  executable_table_.OnSliceReleased(devices, error);
  programs_.OnSliceReleased(devices, error);
  for (const Record& record : arrays_.Records()) {
    if (record->OnDevicesLost(devices, error)) record->Free();
  }
}

}  // namespace pw::controller
