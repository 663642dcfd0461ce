// What all calls of one server share. Immutable but for the session table, which belongs to the strand.
#pragma once

#include <memory>

#include "pathways/base/thread_pool.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/handler.h"
#include "pathways/frontend/server.h"
#include "pathways/frontend/session_table.h"

namespace pw::frontend {

struct ServerState {
  ServerOptions options;
  controller::Cluster* cluster;
  HandlerTable handlers;
  SessionTable sessions;          // strand
  int shared_directory_fd = -1;
  ThreadPool* files = nullptr;    // for reading files
};

}  // namespace pw::frontend
