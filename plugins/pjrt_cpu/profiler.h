// The profiler extension: what this library's copy of XLA does, in the traces that jax.profiler writes.
#pragma once

#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

// Older jaxlibs crash on a plugin without this extension when a trace starts.
PJRT_Extension_Base* ProfilerExtension();

}  // namespace pw::pjrt_cpu
