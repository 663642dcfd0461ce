// Fuzzes the parsers of tokens, tables of tokens and token files: every input ends with a value or a status.
#include <cstddef>
#include <cstdint>
#include <string>

#include "pathways/base/log.h"
#include "pathways/identity/token_file.h"
#include "pathways/identity/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  pw::identity::TokenTable empty;
  PW_CHECK(!empty.Check(text, now).ok());
  if (auto table = pw::identity::TokenTable::Parse(text); table.ok()) {
    PW_CHECK(pw::identity::TokenTable::Parse(table->ToText()).ok());
    table->Use(text, now).status().IgnoreError();
  }
  if (auto file = pw::identity::ParseTokenFile(text); file.ok())
    PW_CHECK(pw::identity::ParseTokenFile(pw::identity::ToText(*file)).ok());
  return 0;
}
