// The extensions for layouts and shardings.
#include <string>
#include <vector>

#include "plugins/pathways_pjrt/convert.h"
#include "plugins/pathways_pjrt/handles.h"
#include "plugins/pathways_pjrt/shardings_extension.h"

struct PJRT_Layouts_SerializedLayout {
  std::string bytes;
};

namespace pw::pathways_pjrt {
namespace {

PJRT_Error* SerializeLayout(PJRT_Layouts_MemoryLayout_Serialize_Args* args) {
  auto* out = new PJRT_Layouts_SerializedLayout{args->layout->text};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_layout = out;
  args->serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* layout) { delete layout; };
  return nullptr;
}

// The session's arrays are row-major by default, on every device.
PJRT_Error* ClientLayout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args) {
  args->layout = new PJRT_Layouts_MemoryLayout{TextOf(OrderOf("", args->num_dims))};
  return nullptr;
}

PJRT_Error* TopologyLayout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args) {
  args->layout = new PJRT_Layouts_MemoryLayout{TextOf(OrderOf("", args->num_dims))};
  return nullptr;
}

PJRT_Error* BufferLayout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args) {
  args->layout = new PJRT_Layouts_MemoryLayout{TextOf(args->buffer->shape->minor_to_major)};
  return nullptr;
}

PJRT_Error* OutputLayouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args) {
  const Program& program = *args->executable->program;
  args->num_outputs = program.output_layouts.size();
  args->layouts = const_cast<PJRT_Layouts_MemoryLayout**>(program.output_layouts.data());
  return nullptr;
}

// Returns the shardings of all values, or none if one of them is not known.
PJRT_Error* Give(const ShardingLists& lists, size_t count, ShardingsArgs* args) {
  args->num_values = count;
  const bool known = lists.texts.size() == count;
  args->shardings = known ? lists.texts.data() : nullptr;
  args->sharding_sizes = known ? lists.sizes.data() : nullptr;
  return nullptr;
}

PJRT_Error* ParameterShardings(ShardingsArgs* args) {
  const Program& program = *args->executable->program;
  return Give(program.parameter_shardings, program.info->parameters.size(), args);
}

PJRT_Error* OutputShardings(ShardingsArgs* args) {
  const Program& program = *args->executable->program;
  return Give(program.output_shardings, program.info->outputs.size(), args);
}

}  // namespace

PJRT_Extension_Base* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension result{};
    result.base = {PJRT_Layouts_Extension_STRUCT_SIZE, PJRT_Extension_Type_Layouts, nullptr};
    result.PJRT_Layouts_MemoryLayout_Destroy = [](PJRT_Layouts_MemoryLayout_Destroy_Args* args) -> PJRT_Error* {
      delete args->layout;
      return nullptr;
    };
    result.PJRT_Layouts_MemoryLayout_Serialize = SerializeLayout;
    result.PJRT_Layouts_PJRT_Client_GetDefaultLayout = ClientLayout;
    result.PJRT_Layouts_PJRT_Buffer_MemoryLayout = BufferLayout;
    result.PJRT_Layouts_PJRT_Topology_GetDefaultLayout = TopologyLayout;
    result.PJRT_Layouts_PJRT_Executable_GetOutputLayouts = OutputLayouts;
    return result;
  }();
  return &extension.base;
}

PJRT_Extension_Base* ShardingsExtension() {
  static ShardingsTable extension = {
      {sizeof(ShardingsTable), kShardingsExtensionType, nullptr}, ParameterShardings, OutputShardings};
  return &extension.base;
}

}  // namespace pw::pathways_pjrt
