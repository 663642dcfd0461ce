// PluginServices: files, a thread to read and write them on, the time and the compiler, for programs that need more than a session. Outlives
// all sessions.
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
  std::shared_ptr<TranslatingCompiler> compiler = nullptr;  // null: what is newer than the devices' runtime is refused
};

}  // namespace pw::frontend
