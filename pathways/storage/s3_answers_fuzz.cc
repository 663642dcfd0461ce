// Fuzzes the parsers of an S3 server's answers with any text. What they accept is within its limits.
#include <cstdint>
#include <string>

#include "pathways/base/log.h"
#include "pathways/storage/s3_answers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto page = pw::storage::ParseS3Page(text);
  if (page.ok()) {
    PW_CHECK(page->objects.size() <= 10'000);
    for (const auto& [key, bytes] : page->objects) PW_CHECK(!key.empty() && bytes >= 0);
  } else {
    PW_CHECK(!page.status().message().empty());
  }
  const pw::storage::S3Error error = pw::storage::ParseS3Error(text);
  PW_CHECK(error.code.size() <= 200 && error.message.size() <= 200);
  return 0;
}
