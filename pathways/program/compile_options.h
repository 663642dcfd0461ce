// The canonical form of compile options, in which they are sent to workers.
//
// The bytes of the options are part of the key of compile caches, whose entries are shared by all devices of a kind. So the bytes
// name no devices, and equal options give equal bytes. (Clients write map entries in an order that differs from run to run.)
#pragma once

#include <string>

#include "xla/compile_options.pb.h"

namespace pw::program {

std::string CanonicalCompileOptions(xla::CompileOptionsProto options);

}  // namespace pw::program
