#include "plugins/pjrt_cpu/status.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {

absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t message_size) {
  // The two enumerations are the same list by definition.
  return absl::Status(static_cast<absl::StatusCode>(code),
                      message == nullptr ? absl::string_view() : absl::string_view(message, message_size));
}

void FillErrorEntries(PJRT_Api* api) {
  api->PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  api->PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    const absl::string_view message = args->error->status.message();
    args->message = message.data();
    args->message_size = message.size();
  };
  api->PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = static_cast<PJRT_Error_Code>(args->error->status.code());
    return nullptr;
  };
}

}  // namespace pw::pjrt_cpu
