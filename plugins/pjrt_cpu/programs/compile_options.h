// Reads compile options that a client wrote for an XLA of another version.
//
// A client sends all options of its own XLA, whether or not its user chose them. An option that the client's XLA no longer has is
// absent. Absent does not mean off: the option keeps the default of this XLA, or the value in XLA_FLAGS of this process. Lists,
// and other fields that cannot be absent from a message, keep the values that were sent.
//
// A user can choose another value for one program (jax.jit's compiler_options, env_option_overrides of a CompileOptionsProto).
// XLA applies such overrides later, so they win.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/xla.pb.h"

namespace pw::pjrt_cpu {

// Returns the options to compile with, before overrides.
xla::DebugOptions DebugOptionsFor(const xla::DebugOptions& sent);

// Parses a CompileOptionsProto. INVALID_ARGUMENT if the bytes are none; XLA's error if it refuses their values.
absl::StatusOr<xla::CompileOptions> ReadCompileOptions(const char* bytes, size_t size);

}  // namespace pw::pjrt_cpu
