// The profiler extension: adds the activity of this library's copy of XLA to the traces of jax.profiler.
#pragma once

#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

// Older jaxlibs crash on a plugin without this extension when a trace starts.
PJRT_Extension_Base* ProfilerExtension();

}  // namespace pw::pjrt_cpu
