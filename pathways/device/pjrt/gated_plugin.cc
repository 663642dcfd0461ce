// The CPU plugin with a gate before its Execute, for tests: it blocks there, as plugins of real accelerators do when their queue is full.
// PwGate(false) closes the gate, PwGate(true) opens it.
#include <dlfcn.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

struct Gate {
  std::mutex mu;
  std::condition_variable changed;
  bool open = true;  // guarded by mu
};

Gate& TheGate() {
  static Gate* const gate = new Gate;
  return *gate;
}

decltype(PJRT_Api::PJRT_LoadedExecutable_Execute) real_execute = nullptr;

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  {
    Gate& gate = TheGate();
    std::unique_lock<std::mutex> lock(gate.mu);
    gate.changed.wait(lock, [&] { return gate.open; });
  }
  return real_execute(args);
}

PJRT_Api MakeApi() {
  void* library = dlopen(PW_REAL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  auto* entry = library == nullptr ? nullptr : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (entry == nullptr) {
    std::fprintf(stderr, "gated_plugin: %s\n", dlerror());
    std::abort();
  }
  PJRT_Api api = *entry();
  real_execute = api.PJRT_LoadedExecutable_Execute;
  api.PJRT_LoadedExecutable_Execute = Execute;
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = MakeApi();
  return &api;
}

extern "C" __attribute__((visibility("default"))) void PwGate(bool open) {
  Gate& gate = TheGate();
  {
    std::lock_guard<std::mutex> lock(gate.mu);
    gate.open = open;
  }
  gate.changed.notify_all();
}
