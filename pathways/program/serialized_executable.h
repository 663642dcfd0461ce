// Executables as bytes that a client may keep and hand to a later one, such as those in jax's persistent compilation cache. Pure.
//
// The bytes are a line of text with the version of their form, the SHA-256 of what follows, and a SerializedExecutable
// (proto/pathways/v1/program.proto). They hold the program and its options, no machine code.
//
// Invariant: bytes that were cut, changed or made by something else are refused, regardless of their contents.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::program {

struct SerializedExecutable {
  std::string platform_name, platform_version;  // of the cluster that compiled it
  std::string module;                           // StableHLO
  std::string options;                          // a serialized xla.CompileOptionsProto, with the device assignment
};

// RESOURCE_EXHAUSTED: the program is too large for this form.
absl::StatusOr<std::string> SerializeExecutable(absl::string_view platform_name, absl::string_view platform_version,
                                                absl::string_view module, absl::string_view options);

// INVALID_ARGUMENT: these bytes are not what SerializeExecutable returned. FAILED_PRECONDITION: they have another version of the form.
absl::StatusOr<SerializedExecutable> ParseExecutable(absl::string_view bytes);

}  // namespace pw::program
