// A small host for tests of our plugins: loads the library PW_PLUGIN_LIBRARY and wraps common calls. Includes only the C header.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::c_table::testing {

// Loads the library once. It is never unloaded, because it cannot be.
inline const PJRT_Api* Api() {
  static const PJRT_Api* const api = [] {
    void* library = dlopen(PW_PLUGIN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const PJRT_Api* result = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
    PJRT_Plugin_Initialize_Args args{PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
    if (result->PJRT_Plugin_Initialize(&args) != nullptr) throw std::runtime_error("PJRT_Plugin_Initialize failed");
    return result;
  }();
  return api;
}

// Argument structs with their size filled in: auto args = Args<PJRT_X_Args>(PJRT_X_Args_STRUCT_SIZE).
#define PW_ARGS(type, name)            \
  type name;                           \
  std::memset(&name, 0, sizeof(name)); \
  name.struct_size = type##_STRUCT_SIZE

struct Outcome {
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;
  bool ok() const { return code == PJRT_Error_Code_OK; }
};

// Returns the error's code and message, and frees it.
inline Outcome Take(PJRT_Error* error) {
  if (error == nullptr) return {};
  PW_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  Api()->PJRT_Error_GetCode(&code);
  PW_ARGS(PJRT_Error_Message_Args, text);
  text.error = error;
  Api()->PJRT_Error_Message(&text);
  Outcome outcome{code.code, std::string(text.message, text.message_size)};
  PW_ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  Api()->PJRT_Error_Destroy(&destroy);
  return outcome;
}

inline void Check(PJRT_Error* error) {
  if (const Outcome outcome = Take(error); !outcome.ok()) throw std::runtime_error(outcome.message);
}

// Waits for an event and frees it.
inline Outcome Await(PJRT_Event* event) {
  PW_ARGS(PJRT_Event_Await_Args, await);
  await.event = event;
  const Outcome outcome = Take(Api()->PJRT_Event_Await(&await));
  PW_ARGS(PJRT_Event_Destroy_Args, destroy);
  destroy.event = event;
  Check(Api()->PJRT_Event_Destroy(&destroy));
  return outcome;
}

inline bool IsReady(PJRT_Event* event) {
  PW_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event;
  Check(Api()->PJRT_Event_IsReady(&args));
  return args.is_ready;
}

inline void Destroy(PJRT_Buffer* buffer) {
  PW_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = buffer;
  Check(Api()->PJRT_Buffer_Destroy(&args));
}

inline Outcome Ready(PJRT_Buffer* buffer) {
  PW_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer;
  Check(Api()->PJRT_Buffer_ReadyEvent(&args));
  return Await(args.event);
}

}  // namespace pw::c_table::testing
