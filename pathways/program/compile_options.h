// Compile options as they travel to the workers.
//
// Compiled programs are found again by the bytes of their options, among others, and shared by all devices of a kind. So the bytes say
// nothing of devices, and equal options are equal bytes: clients write the entries of maps in an order that differs from run to run.
#pragma once

#include <string>

#include "xla/compile_options.pb.h"

namespace pw::program {

std::string CanonicalCompileOptions(xla::CompileOptionsProto options);

}  // namespace pw::program
