#include "pathways/device/pjrt/api.h"

#include <dlfcn.h>
#include <unistd.h>

#include "pathways/base/status_macros.h"

namespace pw::device::pjrt {

absl::StatusOr<std::shared_ptr<const Api>> Api::Load(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("there is no device plugin at '", path,
                                            "': install the device extra of this package, or name a PJRT plugin "
                                            "(a .so file) with --plugin or PATHWAYS_PLUGIN"));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the device plugin '", path, "' does not load: ", dlerror(),
                                                      ". Check that the libraries it names are installed beside it; those of "
                                                      "the CPU plugin come with: pip install 'pathways[cpu]'"));
  }
  auto* get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no PJRT plugin: it does not export GetPjrtApi"));
  }
  const PJRT_Api* table = get_api();
  if (table == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the device plugin '", path, "' is broken: GetPjrtApi returned nothing"));
  }
  std::shared_ptr<const Api> api(new Api(path, library, table));
  PW_RETURN_IF_ERROR(api->Check());
  if (api->Has(&PJRT_Api::PJRT_Plugin_Initialize)) {
    PW_PJRT_ARGS(args, PJRT_Plugin_Initialize_Args);
    PW_RETURN_IF_ERROR(api->Call(&PJRT_Api::PJRT_Plugin_Initialize, &args));
  }
  return api;
}

absl::Status Api::Check() const {
  // These entries come first in the table in every version.
  if (api_->struct_size < offsetof(PJRT_Api, PJRT_Error_GetCode) + sizeof(void*)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the device plugin '", path_, "' is broken: its table has only ", api_->struct_size, " bytes"));
  }
  const PJRT_Api_Version& version = api_->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the device plugin '", path_, "' speaks PJRT ", version.major_version, ".", version.minor_version, ", this worker ",
        PJRT_API_MAJOR, ".", PJRT_API_MINOR, ": the major versions must agree; install a plugin of this generation"));
  }
  if (!Has(&PJRT_Api::PJRT_Client_Create) || !Has(&PJRT_Api::PJRT_LoadedExecutable_Execute) ||
      !Has(&PJRT_Api::PJRT_Client_BufferFromHostBuffer) || !Has(&PJRT_Api::PJRT_Event_OnReady) ||
      !Has(&PJRT_Api::PJRT_Error_Message) || !Has(&PJRT_Api::PJRT_Error_Destroy)) {
    return absl::FailedPreconditionError(absl::StrCat("the device plugin '", path_, "' (PJRT ", version.major_version, ".",
                                                      version.minor_version, ") lacks entries that every plugin must have"));
  }
  return absl::OkStatus();
}

absl::Status Api::TakeError(PJRT_Error* error) const {
  if (error == nullptr) return absl::OkStatus();
  PW_PJRT_ARGS(message, PJRT_Error_Message_Args);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  PW_PJRT_ARGS(code, PJRT_Error_GetCode_Args);
  code.error = error;
  absl::StatusCode status_code = absl::StatusCode::kUnknown;
  if (TakeError(api_->PJRT_Error_GetCode(&code)).ok() && code.code != PJRT_Error_Code_OK) {
    status_code = static_cast<absl::StatusCode>(code.code);  // the numbers are the same
  }
  absl::Status status(status_code, absl::string_view(message.message, message.message_size));
  PW_PJRT_ARGS(destroy, PJRT_Error_Destroy_Args);
  destroy.error = error;
  api_->PJRT_Error_Destroy(&destroy);
  return status;
}

const PJRT_Extension_Base* Api::FindExtension(PJRT_Extension_Type type) const {
  for (const PJRT_Extension_Base* e = api_->extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return e;
  }
  return nullptr;
}

void* Api::FindSymbol(const char* name) const { return dlsym(library_, name); }

}  // namespace pw::device::pjrt
