// The table of entries. GetPjrtApi returns it.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/c_table/defaults.h"
#include "plugins/c_table/named_values.h"
#include "plugins/pjrt_cpu/profiler.h"
#include "plugins/pjrt_cpu/programs/shard_calls.h"
#include "plugins/pjrt_cpu/status.h"

namespace pw::pjrt_cpu {
namespace {

// Returns the plugin's attributes, with the StableHLO versions that this XLA reads. jax writes its programs for the version that
// it finds here. Newer programs that use composites would not parse.
PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args) {
  static const c_table::NamedValues& attributes = []() -> c_table::NamedValues& {
    auto* values = new c_table::NamedValues;
    values->Add("xla_version", int64_t{2});
    values->Add("stablehlo_current_version", std::vector<int64_t>{1, 13, 0});
    values->Add("stablehlo_minimum_version", std::vector<int64_t>{0, 9, 0});
    return *values;
  }();
  args->attributes = attributes.data();
  args->num_attributes = attributes.size();
  return nullptr;
}

PJRT_Error* Initialize(PJRT_Plugin_Initialize_Args*) {
  static const absl::Status* const status = [] {
    absl::Status registered = RegisterHandlers();
    if (registered.ok()) registered = RegisterShardCalls();
    return new absl::Status(std::move(registered));
  }();
  return MakeError(*status);
}

PJRT_Extension_Base* Extensions() {
  PJRT_Extension_Base* first = LayoutsExtension();
  first->next = MemoryDescriptionsExtension();
  first->next->next = FfiExtension();
  first->next->next->next = ProfilerExtension();
  return first;
}

PJRT_Api MakeApi() {
  PJRT_Api api{};
  api.struct_size = c_table::kApiSize;
  api.extension_start = Extensions();
  api.pjrt_api_version = c_table::kApiVersion;
  c_table::FillDefaults(&api);
  api.PJRT_Plugin_Initialize = Initialize;
  api.PJRT_Plugin_Attributes = Attributes;
  c_table::FillErrorEntries(&api);
  FillEventEntries(&api);
  FillClientEntries(&api);
  FillTopologyEntries(&api);
  FillCompileEntries(&api);
  FillExecutableEntries(&api);
  FillExecuteEntries(&api);
  FillBufferEntries(&api);
  FillTransferEntries(&api);
  return api;
}

}  // namespace
}  // namespace pw::pjrt_cpu

absl::Status pw::c_table::Refusal(absl::string_view entry) {
  return absl::UnimplementedError(absl::StrCat("libpjrt_cpu does not implement ", entry));
}

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = pw::pjrt_cpu::MakeApi();
  return &api;
}
