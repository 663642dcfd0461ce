// What plugin programs need beside a session: files, a thread to read and write them on, the time. Outlives all sessions.
#pragma once

#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/frontend/plugin_programs/storage.h"

namespace pw::frontend {

struct PluginServices {
  Storage storage;
  Executor* files;
  Clock* clock;
};

}  // namespace pw::frontend
