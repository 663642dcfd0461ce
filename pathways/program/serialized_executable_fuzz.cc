// Fuzzes the reader of serialized executables: with the input as it is, and with the input as contents under a correct checksum.
// An executable that can be read is the same after it is written and read again.
#include <cstdint>
#include <string>
#include <string_view>

#include "pathways/base/log.h"
#include "pathways/base/sha256.h"
#include "pathways/program/serialized_executable.h"

namespace {

void TryRead(std::string_view bytes) {
  const auto read = pw::program::ParseExecutable({bytes.data(), bytes.size()});
  if (!read.ok()) return;
  const auto again = pw::program::ParseExecutable(
      pw::program::SerializeExecutable(read->platform_name, read->platform_version, read->module, read->options).value());
  PW_CHECK(again.ok() && again->module == read->module && again->options == read->options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  TryRead(input);
  TryRead(std::string("pathways-executable-1\n") + pw::Sha256(input) + std::string(input));
  return 0;
}
