// PluginServices: files, a thread for reading and writing them, the clock and the compiler, for plugin programs that need more than a
// session. Must outlive all sessions.
#pragma once

#include <memory>

#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/frontend/plugin_programs/storage.h"

namespace pw::frontend {

class TranslatingCompiler;

struct PluginServices {
  Storage storage;
  Executor* files;
  Clock* clock;
  std::shared_ptr<TranslatingCompiler> compiler = nullptr;  // null: programs newer than the devices' runtime are refused
};

}  // namespace pw::frontend
