// The table of entries.
#include "absl/strings/str_cat.h"
#include "plugins/c_table/defaults.h"
#include "plugins/pathways_pjrt/attributes.h"
#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {
namespace {

PJRT_Extension_Base* Extensions() {
  PJRT_Extension_Base* first = LayoutsExtension();
  first->next = ShardingsExtension();
  return first;
}

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = c_table::kApiSize;
  api.extension_start = Extensions();
  api.pjrt_api_version = c_table::kApiVersion;
  api.pjrt_api_version.minor_version = 91;  // older tables are not asked for the shardings extension
  c_table::FillDefaults(&api);
  c_table::FillErrorEntries(&api);
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Plugin_Attributes = Attributes;
  FillEventEntries(&api);
  FillClientEntries(&api);
  FillDeviceEntries(&api);
  FillTopologyEntries(&api);
  FillCompileEntries(&api);
  FillExecutableEntries(&api);
  FillExecuteEntries(&api);
  FillBufferEntries(&api);
  FillTransferEntries(&api);
  return api;
}

}  // namespace

absl::Status NotYet(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(what, " is not implemented by Pathways' PJRT door; set PATHWAYS_DOOR=ifrt to enter by the door that has it"));
}

}  // namespace pw::pathways_pjrt

absl::Status pw::c_table::Refusal(absl::string_view entry) { return pw::pathways_pjrt::NotYet(entry); }

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = pw::pathways_pjrt::MakeApi();
  return &api;
}
