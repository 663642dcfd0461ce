// Broken device plugins for tests, one for each value of PW_BAD_PLUGIN.
#include "xla/pjrt/c/pjrt_c_api.h"

#if PW_BAD_PLUGIN == 1  // another major version
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR + 1, 3};
  return &api;
}
#elif PW_BAD_PLUGIN == 2  // an empty table
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  return &api;
}
#elif PW_BAD_PLUGIN == 3  // nothing at all
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() { return nullptr; }
#else                     // no plugin
extern "C" __attribute__((visibility("default"))) int NotAPlugin() { return 0; }
#endif
