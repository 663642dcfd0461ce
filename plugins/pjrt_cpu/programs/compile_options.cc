#include "plugins/pjrt_cpu/programs/compile_options.h"

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "xla/debug_options_flags.h"
#include "xla/pjrt/proto/compile_options.pb.h"

namespace pw::pjrt_cpu {
namespace {

// Clears the fields without presence: a message cannot tell whether they are absent.
void ClearFieldsWithoutPresence(google::protobuf::Message& message) {
  const google::protobuf::Descriptor& fields = *message.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    if (!fields.field(i)->has_presence()) message.GetReflection()->ClearField(&message, fields.field(i));
  }
}

}  // namespace

xla::DebugOptions DebugOptionsFor(const xla::DebugOptions& sent) {
  xla::DebugOptions options = xla::GetDebugOptionsFromFlags();
  ClearFieldsWithoutPresence(options);
  options.MergeFrom(sent);
  return options;
}

absl::StatusOr<xla::CompileOptions> ReadCompileOptions(const char* bytes, size_t size) {
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromString(absl::string_view(bytes, size))) {
    return absl::InvalidArgumentError("compile_options is not a serialized CompileOptionsProto");
  }
  xla::DebugOptions& debug = *proto.mutable_executable_build_options()->mutable_debug_options();
  debug = DebugOptionsFor(debug);
  absl::StatusOr<xla::CompileOptions> options = xla::CompileOptions::FromProto(proto);
  if (options.ok()) options->allow_in_place_mlir_modification = true;  // the module is parsed for this compilation alone
  return options;
}

}  // namespace pw::pjrt_cpu
