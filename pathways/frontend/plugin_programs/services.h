// PluginServices: folders, a thread for reading and writing them, the clock and the compiler, for plugin programs that need more than a
// session. Must outlive all sessions.
#pragma once

#include <memory>

#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/storage/files.h"

namespace pw::frontend {

class TranslatingCompiler;

struct PluginServices {
  storage::Roots files_of_clients;  // where profiles go
  Executor* files;
  Clock* clock;
  std::shared_ptr<TranslatingCompiler> compiler = nullptr;  // null: programs newer than the devices' runtime are refused
};

}  // namespace pw::frontend
