// Prints optimized programs as text. PJRT returns programs only as protocol buffers, which a host without XLA cannot print. So
// this library exports a printer beside the PJRT table. It prints modules of any platform.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_module_config.h"
#include "xla/xla.pb.h"

namespace pw::pjrt_cpu {
namespace {

absl::StatusOr<std::string> Print(absl::string_view serialized) {
  xla::HloModuleProto proto;
  if (!proto.ParseFromString(serialized)) return absl::InvalidArgumentError("not a serialized HloModuleProto");
  absl::StatusOr<xla::HloModuleConfig> config = xla::HloModule::CreateModuleConfigFromProto(proto, xla::DebugOptions());
  if (!config.ok()) return config.status();
  absl::StatusOr<std::unique_ptr<xla::HloModule>> module = xla::HloModule::CreateFromProto(proto, *config);
  if (!module.ok()) return module.status();
  return (*module)->ToString();
}

}  // namespace
}  // namespace pw::pjrt_cpu

// Returns the text of a serialized xla.HloModuleProto, which the caller must free(). Returns null if the module does not parse.
extern "C" __attribute__((visibility("default"))) char* PathwaysHloModuleText(const char* module, size_t size,
                                                                              size_t* text_size) {
  const absl::StatusOr<std::string> text = pw::pjrt_cpu::Print(absl::string_view(module, size));
  if (!text.ok()) return nullptr;
  char* result = static_cast<char*>(std::malloc(text->size() + 1));
  if (result == nullptr) return nullptr;
  std::memcpy(result, text->c_str(), text->size() + 1);
  *text_size = text->size();
  return result;
}
