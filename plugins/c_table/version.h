// Includes the PJRT C API of the wheel, of any version. Our plugins implement version 0.90, that of tensorflow-cpu 2.21.
//
// Newer headers define PJRT_Error and PJRT_Memory, each of which begins with a table of functions for hosts of newer versions.
// Older headers leave both to the library. So our errors and memories derive from them.
#pragma once

#include <cstddef>

#include "xla/pjrt/c/pjrt_c_api.h"

#if PJRT_API_MINOR <= 90
struct PJRT_Error {};
struct PJRT_Memory {};
#endif

namespace pw::c_table {

static_assert(PJRT_API_MAJOR == 0 && PJRT_API_MINOR >= 90);
inline constexpr PJRT_Api_Version kApiVersion = {PJRT_Api_Version_STRUCT_SIZE, nullptr, 0, 90};

// The end of the last entry of this version. Entries of newer versions stay null behind it; no host reads them.
inline constexpr size_t kApiSize = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Event_Set);

}  // namespace pw::c_table
