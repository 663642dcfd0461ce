// The table of entries, the one symbol that this library exports.
#include <cstddef>
#include <utility>

#include "plugins/pjrt_cpu/profiler.h"
#include "plugins/pjrt_cpu/shard_calls.h"
#include "plugins/pjrt_cpu/status.h"

namespace pw::pjrt_cpu {
namespace {

// Makes every entry answer UNIMPLEMENTED, so that none is null; the Fill functions then set theirs.
template <typename Args>
void SetDefault(PJRT_Error* (*&entry)(Args*)) {
  entry = Unimplemented<Args>;
}

void FillDefaults(PJRT_Api* api) {
  SetDefault(api->PJRT_CopyToDeviceStream_Destroy);
  SetDefault(api->PJRT_CopyToDeviceStream_AddChunk);
  SetDefault(api->PJRT_CopyToDeviceStream_TotalBytes);
  SetDefault(api->PJRT_CopyToDeviceStream_GranuleSize);
  SetDefault(api->PJRT_CopyToDeviceStream_CurrentBytes);
}

// The StableHLO version that this XLA reads. jax writes its programs for the version it finds here; newer programs that use composites
// would not parse.
const int64_t kStablehloCurrent[] = {1, 13, 0};
const int64_t kStablehloMinimum[] = {0, 9, 0};

PJRT_NamedValue Named(const char* name, size_t size) {
  PJRT_NamedValue value{PJRT_NamedValue_STRUCT_SIZE};
  value.name = name;
  value.name_size = size;
  value.value_size = 1;
  return value;
}

template <size_t N, size_t M>
PJRT_NamedValue NamedList(const char (&name)[N], const int64_t (&list)[M]) {
  PJRT_NamedValue value = Named(name, N - 1);
  value.type = PJRT_NamedValue_kInt64List;
  value.int64_array_value = list;
  value.value_size = M;
  return value;
}

PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args) {
  static const PJRT_NamedValue* const attributes = [] {
    static PJRT_NamedValue values[3];
    values[0] = Named("xla_version", 11);
    values[0].type = PJRT_NamedValue_kInt64;
    values[0].int64_value = 2;
    values[1] = NamedList("stablehlo_current_version", kStablehloCurrent);
    values[2] = NamedList("stablehlo_minimum_version", kStablehloMinimum);
    return values;
  }();
  args->attributes = attributes;
  args->num_attributes = 3;
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
  api.struct_size = kApiSize;
  api.extension_start = Extensions();
  api.pjrt_api_version = kApiVersion;
  api.PJRT_Plugin_Initialize = Initialize;
  api.PJRT_Plugin_Attributes = Attributes;
  FillDefaults(&api);
  FillErrorEntries(&api);
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

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = pw::pjrt_cpu::MakeApi();
  return &api;
}
