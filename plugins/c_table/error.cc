#include "plugins/c_table/error.h"

#include "absl/strings/string_view.h"

namespace pw::c_table {

void FillErrorEntries(PJRT_Api* api) {
  api->PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete Own(args->error); };
  api->PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    const absl::string_view message = Own(args->error)->status.message();
    args->message = message.data();
    args->message_size = message.size();
  };
  // Both enumerations have the same values by definition.
  api->PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = static_cast<PJRT_Error_Code>(Own(args->error)->status.code());
    return nullptr;
  };
}

}  // namespace pw::c_table
