#include "pathways/controller/arrays/array_layouts.h"

#include "absl/strings/str_cat.h"
#include "xla/xla_data.pb.h"

namespace pw::controller {
namespace {

bool IsRowMajor(const std::string& layout) {
  xla::LayoutProto proto;
  if (!proto.ParseFromString(layout)) return true;  // not understood: clients also mark row-major layouts with such bytes
  for (int i = 1; i < proto.minor_to_major_size(); ++i) {
    if (proto.minor_to_major(i - 1) < proto.minor_to_major(i)) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckKeepsLayout(const resource::Topology& topology, const buffers::ArraySpec& from, const buffers::ArraySpec& to) {
  if (IsRowMajor(to.layout)) return absl::OkStatus();
  auto host = [&](DeviceId id) {
    const auto* device = topology.FindDevice(id);
    return device == nullptr ? HostId() : device->host;
  };
  for (int i = 0; i < from.sharding.num_shards(); ++i) {
    if (host(from.sharding.devices()[i]) == host(to.sharding.devices()[i])) continue;
    return absl::UnimplementedError(
        absl::StrCat("a copy of ", buffers::ToString(from),
                     " to another host: the array has a layout of its own, which would be lost. Put it into the "
                     "default layout first (a jitted identity does that)"));
  }
  return absl::OkStatus();
}

}  // namespace pw::controller
