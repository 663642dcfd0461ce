#include "pathways/program/compile_options.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace pw::program {

std::string CanonicalCompileOptions(xla::CompileOptionsProto options) {
  if (options.has_executable_build_options()) options.mutable_executable_build_options()->clear_device_assignment();
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  options.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace pw::program
