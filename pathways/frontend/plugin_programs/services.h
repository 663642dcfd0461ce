// PluginServices: the folders, the thread for files, the clock and the compiler that requests need beside their session. Must
// outlive all sessions.
#pragma once

#include <memory>

#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/storage/files.h"

namespace pw::frontend {

class TranslatingCompiler;

struct PluginServices {
  storage::Roots files_of_clients;  // for profiles
  Executor* files;
  Clock* clock;
  std::shared_ptr<TranslatingCompiler> compiler = nullptr;  // null: programs newer than the devices' runtime are refused
};

}  // namespace pw::frontend
