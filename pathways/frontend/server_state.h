// What all calls of one server share. Immutable but for the session table, which belongs to the strand.
#pragma once

#include <memory>
#include <utility>

#include "pathways/controller/session.h"
#include "pathways/frontend/handler.h"
#include "pathways/frontend/plugin_programs/services.h"
#include "pathways/frontend/server.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/translation/translating_compiler.h"
#include "pathways/net/shared_memory.h"

namespace pw::frontend {

struct ServerState {
  ServerState(const ServerOptions& server_options, controller::Cluster* of_cluster, Executor* files, Clock* clock,
              std::shared_ptr<TranslatingCompiler> compiler)
      : options(server_options),
        cluster(of_cluster),
        plugins{Storage(options.persistence_directory, options.object_directory), files, clock, std::move(compiler)} {}

  const ServerOptions options;
  controller::Cluster* const cluster;
  const HandlerTable handlers;
  const PluginServices plugins;  // with the thread on which files are read
  SessionTable sessions;         // strand
  int shared_directory_fd = -1;
  std::string bulk_line;  // what sessions are told of bulk lines; empty: there are none
  // For what workers of this machine shall have; what is kept is owned by sessions, as the wire names them.
  net::SharedMemoryFactory shared{net::SharedMemoryFactory::kDefaultLimit, net::KeptOfThisMachine()};
};

}  // namespace pw::frontend
