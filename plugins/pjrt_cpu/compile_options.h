// Options of a compilation, which a client wrote for an XLA of another version.
//
// A client sends all options of its own XLA, whether its user chose them or not. An option that the client's XLA no longer has is absent, and
// absent does not mean off: it keeps the default of this XLA, or the value in XLA_FLAGS of this process. Lists, and other fields of which a
// message cannot tell whether they are absent, are as they were sent.
//
// A user who wants another value names the option for one program (jax.jit's compiler_options, env_option_overrides of a CompileOptionsProto).
// XLA applies those later, so they win.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/xla.pb.h"

namespace pw::pjrt_cpu {

// The options by which to compile. Overrides are not part of it.
xla::DebugOptions DebugOptionsFor(const xla::DebugOptions& sent);

// INVALID_ARGUMENT if the bytes are no CompileOptionsProto. An error of XLA if their values are none that it takes.
absl::StatusOr<xla::CompileOptions> ReadCompileOptions(const char* bytes, size_t size);

}  // namespace pw::pjrt_cpu
