// A profiler for jax.profiler whose events the Python package fetches from a cluster. jaxlib starts, stops and reads it like the profiler of any
// device plugin: through the profiler extension of a PJRT C API. That API has no other entry, so it makes no client.
//
// Both doors use it, because the IFRT proxy's client has no plugin. The package sets two functions (PathwaysProfiler): one that starts the hosts'
// recordings, and one that ends them and passes their XSpaces to PathwaysProfilerAdd. The package itself reports their failures: the profile of
// the process goes on.
//
// One profile is recorded at a time; jaxlib sees to that. Calls come on the thread that starts or stops the profile.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

struct PLUGIN_Profiler {
  bool started = false;
};

namespace pw::pathways_profiler {
namespace {

using Function = void (*)();

struct Package {
  Function start = nullptr;
  Function stop = nullptr;
  std::string xspaces;  // serialized XSpaces, one after the other: they are one XSpace
};

Package& ThePackage() {
  static auto* package = new Package;
  return *package;
}

PLUGIN_Profiler_Error* Create(PLUGIN_Profiler_Create_Args* args) {
  args->profiler = new PLUGIN_Profiler;
  return nullptr;
}

PLUGIN_Profiler_Error* Start(PLUGIN_Profiler_Start_Args* args) {
  ThePackage().xspaces.clear();
  args->profiler->started = true;
  ThePackage().start();
  return nullptr;
}

PLUGIN_Profiler_Error* Stop(PLUGIN_Profiler_Stop_Args* args) {
  if (!args->profiler->started) return nullptr;
  args->profiler->started = false;
  ThePackage().stop();
  return nullptr;
}

// Ends a recording that was not stopped.
PLUGIN_Profiler_Error* Destroy(PLUGIN_Profiler_Destroy_Args* args) {
  if (args->profiler != nullptr && args->profiler->started) ThePackage().stop();
  std::string().swap(ThePackage().xspaces);
  delete args->profiler;
  return nullptr;
}

// Copies the bytes into the host's buffer. A host that passes none gets ours, which lives as long as the profiler: jaxlib calls this once.
PLUGIN_Profiler_Error* Collect(PLUGIN_Profiler_CollectData_Args* args) {
  std::string& xspaces = ThePackage().xspaces;
  auto* const bytes = reinterpret_cast<uint8_t*>(xspaces.data());
  if (args->buffer == nullptr) {
    args->buffer = bytes;
  } else if (args->buffer != bytes) {
    std::memcpy(args->buffer, bytes, xspaces.size());
  }
  args->buffer_size_in_bytes = xspaces.size();
  return nullptr;
}

// No function fails, so no error is made.
PLUGIN_Profiler_Api MakeProfilerApi() {
  PLUGIN_Profiler_Api api{};
  api.struct_size = PLUGIN_Profiler_Api_STRUCT_SIZE;
  api.error_destroy = [](PLUGIN_Profiler_Error_Destroy_Args*) {};
  api.error_message = [](PLUGIN_Profiler_Error_Message_Args* args) {
    args->message = "";
    args->message_size = 0;
  };
  api.error_get_code = [](PLUGIN_Profiler_Error_GetCode_Args* args) -> PLUGIN_Profiler_Error* {
    args->code = 0;
    return nullptr;
  };
  api.create = Create;
  api.destroy = Destroy;
  api.start = Start;
  api.stop = Stop;
  api.collect_data = Collect;
  return api;
}

const PJRT_Api* Api() {
  static PLUGIN_Profiler_Api profiler = MakeProfilerApi();
  static PJRT_Profiler_Extension extension = {
      {PJRT_Profiler_Extension_STRUCT_SIZE, PJRT_Extension_Type_Profiler, nullptr}, &profiler, /*traceme_context_id=*/0};
  static const PJRT_Api api = [] {
    PJRT_Api made{};
    made.struct_size = PJRT_Api_STRUCT_SIZE;
    made.extension_start = &extension.base;
    made.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
    return made;
  }();
  return &api;
}

}  // namespace
}  // namespace pw::pathways_profiler

#define PW_FOR_THE_PACKAGE extern "C" __attribute__((visibility("default")))

// Sets the package's functions; returns the PJRT C API to register with jaxlib. The functions live as long as the process.
PW_FOR_THE_PACKAGE const void* PathwaysProfiler(void (*start)(), void (*stop)()) {
  pw::pathways_profiler::ThePackage().start = start;
  pw::pathways_profiler::ThePackage().stop = stop;
  return pw::pathways_profiler::Api();
}

// Adds bytes of an XSpace to the profile. Called by `stop`.
PW_FOR_THE_PACKAGE void PathwaysProfilerAdd(const char* bytes, size_t size) {
  pw::pathways_profiler::ThePackage().xspaces.append(bytes, size);
}
