#include "pathways/client/session_slices.h"

#include <algorithm>
#include <string>

#include "pathways/resource/topology.h"

namespace pw::client {

void SessionSlices::SetDevices(const session::SpareDevices& spares) {
  std::map<DeviceId, const std::string*> kinds;
  for (const session::DeviceInfo& device : spares.devices) {
    if (resource::IsVirtual(device.id)) kinds[device.id] = &device.kind;
  }
  devices_.Clear();
  for (const auto& [device, kind] : kinds) {
    const int last = devices_.kinds_size() - 1;
    if (last < 0) devices_.set_first_device(device.v);
    if (last >= 0 && devices_.kinds(last) == *kind) {
      devices_.set_counts(last, devices_.counts(last) + 1);
    } else {
      devices_.add_kinds(*kind);
      devices_.add_counts(1);
    }
  }
}

void SessionSlices::Add(const ::pathways::v1::AddSlice& asked, const SliceReport& report) {
  last_ = std::max(last_, report.slice());
  if (report.what() == SliceReport::REFUSED) return;
  slices_[SliceId(report.slice())] = {asked, report};
  for (int32_t device : report.devices()) released_.erase(device);
}

void SessionSlices::Update(const SliceReport& report) {
  const auto slice = slices_.find(SliceId(report.slice()));
  if (slice == slices_.end()) return;
  slice->second.report = report;
  for (int32_t device : report.devices()) released_.erase(device);
}

void SessionSlices::Release(SliceId id, uint64_t request) {
  const auto slice = slices_.find(id);
  if (slice != slices_.end() && slice->second.released_by == 0) slice->second.released_by = request;
}

void SessionSlices::Forget(std::map<SliceId, Slice>::iterator slice) {
  const SliceReport& report = slice->second.report;
  for (int i = 0; i < report.devices_size(); ++i) released_[report.devices(i)] = report.physical(i);
  slices_.erase(slice);
}

void SessionSlices::OnSettled(uint64_t up_to) {
  for (auto slice = slices_.begin(); slice != slices_.end();) {
    const auto at = slice++;
    if (at->second.released_by != 0 && at->second.released_by <= up_to) Forget(at);
  }
}

void SessionSlices::Write(const KeptRequests& kept, ::pathways::v1::RestoredSlices* slices, ::pathways::v1::Restore* last) const {
  *slices = devices_;
  for (const auto& [id, slice] : slices_) {
    auto& written = *slices->add_slices();
    *written.mutable_asked() = slice.asked;
    *written.mutable_report() = slice.report;
    written.set_leaves(slice.released_by != 0);
    if (slice.released_by != 0 && kept.IsSettled(slice.released_by)) last->add_released_slices(id.v);
  }
  for (const auto& [device, physical] : released_) {
    slices->add_released_devices(device);
    slices->add_released_physical(physical);
  }
  slices->set_last_slice(last_);
}

}  // namespace pw::client
