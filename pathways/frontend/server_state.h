// State that all calls of one server share. Immutable, except the session table, which belongs to the strand.
#pragma once

#include <memory>
#include <utility>

#include "pathways/controller/session.h"
#include "pathways/frontend/handler.h"
#include "pathways/frontend/plugin_programs/services.h"
#include "pathways/frontend/server.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/translation/translating_compiler.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::frontend {

struct ServerState {
  ServerState(const ServerOptions& server_options, controller::Cluster* of_cluster, Executor* files, Clock* clock,
              std::shared_ptr<TranslatingCompiler> compiler)
      : options(server_options),
        cluster(of_cluster),
        plugins{storage::Roots(options.persistence_directory, options.object_directory), files, clock, std::move(compiler)} {}

  const ServerOptions options;
  controller::Cluster* const cluster;
  const HandlerTable handlers;
  const PluginServices plugins;  // includes the thread that reads files
  SessionTable sessions;         // strand
  int shared_directory_fd = -1;
  // Memory for bytes that workers on this machine read; sessions own kept blocks, by wire id.
  net::SharedMemoryFactory shared{net::SharedMemoryFactory::kDefaultLimit, net::KeptOfThisMachine()};
};

}  // namespace pw::frontend
