// The profiler extension: adds the activity of this library's copy of XLA to the traces of jax.profiler.
#pragma once

#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

// Returns the extension. Without it, older jaxlibs crash when a trace starts.
PJRT_Extension_Base* ProfilerExtension();

}  // namespace pw::pjrt_cpu
