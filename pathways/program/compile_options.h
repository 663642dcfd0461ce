// Compile options: the canonical form in which they are sent to workers, and the options that a stranger must not set.
//
// The bytes of the options are part of the key of compile caches, whose entries are shared by all devices of a kind. So the bytes
// name no devices, and equal options give equal bytes. (Clients write map entries in an order that differs from run to run.)
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "xla/compile_options.pb.h"

namespace pw::program {

std::string CanonicalCompileOptions(xla::CompileOptionsProto options);

// Checks serialized options of a client whose rights on the hosts are not the worker's. Returns PERMISSION_DENIED, naming the option, for one
// with which XLA would read or write a file on the hosts, or pass arguments to LLVM or ptxas. INVALID_ARGUMENT: the options cannot be read.
absl::Status CheckOptionsOfStranger(absl::string_view options);

}  // namespace pw::program
