// The shardings extension of the PJRT C API, for wheels with older headers. The API fixes its layout: hosts read it by these
// offsets. It tells a host the shardings of a program's parameters and outputs.
#pragma once

#include <cstddef>

#include "plugins/c_table/version.h"

namespace pw::pathways_pjrt {

inline constexpr auto kShardingsExtensionType = static_cast<PJRT_Extension_Type>(19);

// Arguments of both functions. `shardings`: a serialized xla.OpSharding for each value, owned by the executable; null: not known.
struct ShardingsArgs {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_values;             // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
};

struct ShardingsTable {
  PJRT_Extension_Base base;
  PJRT_Error* (*parameter_shardings)(ShardingsArgs* args);
  PJRT_Error* (*output_shardings)(ShardingsArgs* args);
};

}  // namespace pw::pathways_pjrt
