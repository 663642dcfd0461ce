// Local clusters in this process: controller, host and device runtime, which sessions call directly.
//
// A cluster starts when a client first requests it, and lives until the process ends. Later clients with the same flags share it.
// A cluster whose host has ended is replaced. A forked child uses none of its parent's clusters, because it has none of their
// threads.
//
// Invariants:
//   1. A cluster that serves is never destroyed.
//   2. The end of the process waits some seconds for devices that compute, because the memory and code that they use are about to
//      go. In a forked child it does not wait.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/threads/helped_thread.h"
#include "pathways/client/client.h"

namespace pw::pathways_pjrt {

// A session with a cluster of this process.
struct OwnSession {
  std::shared_ptr<const void> cluster;  // outlives the client
  HelpedThread* thread;                 // the cluster's thread; lives as long as the cluster
  std::unique_ptr<client::Client> client;
};

// Opens a session with the cluster of these flags, and starts that cluster if necessary. `flags` has one flag a line. The flags are those of
// pathways-local, and `--log=FILE` for the log lines of this library.
absl::StatusOr<OwnSession> OpenOwnSession(const std::string& flags, const std::string& description,
                                          const gang::ShareChange& share);

}  // namespace pw::pathways_pjrt
