#include "plugins/pjrt_cpu/status.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {
namespace {

// A lasting error stores its code in its text between two of these, a control character that no message contains.
constexpr char kMark = '\x1f';

// Removes the first mark from `text` and returns its code, if any.
int TakeMark(std::string& text) {
  const size_t begin = text.find(kMark);
  const size_t end = begin == std::string::npos ? begin : text.find(kMark, begin + 1);
  if (end == std::string::npos) return 0;
  int code = 0;
  if (!absl::SimpleAtoi(text.substr(begin + 1, end - begin - 1), &code)) code = 0;
  text.erase(begin, end - begin + 1);
  return code;
}

}  // namespace

absl::Status Lasting(const absl::Status& status) {
  if (status.ok()) return status;
  const std::string mark(1, kMark);
  return absl::Status(status.code(), absl::StrCat(status.message(), mark, static_cast<int>(status.code()), mark));
}

PJRT_Error* MakeError(absl::Status status) {
  if (status.ok()) return nullptr;
  std::string text(status.message());
  int code = static_cast<int>(status.code());
  if (const int first = TakeMark(text); first != 0) {
    code = first;
    while (TakeMark(text) != 0) {
    }
    status = absl::Status(static_cast<absl::StatusCode>(code), text);
  }
  return c_table::NewError(std::move(status));
}

absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t message_size) {
  return Lasting(c_table::StatusOf(code, message, message_size));
}

}  // namespace pw::pjrt_cpu
