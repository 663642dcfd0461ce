// Parsers of what an S3 server answers: XML of lists and of errors. The server is another party's, so what is not as the protocol says is refused. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::storage {

// One page of the answer to ListObjectsV2 with encoding-type=url.
struct S3Page {
  std::vector<std::pair<std::string, int64_t>> objects;  // keys and sizes
  std::string next;                                      // the continuation token of the next page; empty: this is the last
};
// INVALID_ARGUMENT says what is wrong.
absl::StatusOr<S3Page> ParseS3Page(absl::string_view xml);

struct S3Error {
  std::string code;     // such as "AccessDenied"; empty: the answer has none
  std::string message;  // at most 200 printable characters
};
// Returns an empty error for any other text.
S3Error ParseS3Error(absl::string_view xml);

}  // namespace pw::storage
