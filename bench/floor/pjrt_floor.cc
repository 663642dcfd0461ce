// pjrt_floor: measures the memory of a process that only creates a device plugin's client. No worker can use less. Prints one
// JSON line, then waits for the end of standard input.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "pathways/base/process/flags.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// Prints the plugin's error, if any. Returns whether there was one.
bool Failed(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return false;
  PJRT_Error_Message_Args message{};
  message.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  message.error = error;
  api->PJRT_Error_Message(&message);
  std::fprintf(stderr, "pjrt_floor: %.*s\n", static_cast<int>(message.message_size), message.message);
  return true;
}

bool CreateClient(const PJRT_Api* api, int64_t devices) {
  PJRT_Plugin_Initialize_Args init{};
  init.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE;
  if (Failed(api, api->PJRT_Plugin_Initialize(&init))) return false;
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "num_devices";
  option.name_size = 11;
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = devices;
  option.value_size = 1;
  PJRT_Client_Create_Args create{};
  create.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
  create.create_options = &option;
  create.num_options = 1;
  return !Failed(api, api->PJRT_Client_Create(&create));
}

}  // namespace

int main(int argc, char** argv) {
  std::string plugin;
  int64_t devices = 8;
  pw::Flags flags("pjrt_floor", "The memory of a process that only creates a device plugin's client.");
  flags.Add("plugin", &plugin, "PATH", "a PJRT plugin");
  flags.Add("devices", &devices, "N", "devices to ask for");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;

  const auto start = std::chrono::steady_clock::now();
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto entry = library == nullptr ? nullptr : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (entry == nullptr) {
    std::fprintf(stderr, "pjrt_floor: %s\n", dlerror());
    return 1;
  }
  if (!CreateClient(entry(), devices)) return 1;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("{\"rss_bytes\": %lld, \"seconds\": %.3f}\n", static_cast<long long>(ResidentBytes()), seconds);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
  }
  return 0;
}
