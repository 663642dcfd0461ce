// The local clusters in this process: controller, host and device runtime behind this library, for sessions by direct calls.
//
// A cluster is started when a client first wants it and lives until the process ends, as one in a process of its own would: later clients with the
// same flags share it. One whose host has ended is replaced. A forked child has none of its parent's: their threads are the parent's.
//
// Invariants:
//   1. A cluster that serves is never destroyed.
//   2. The end of the process waits for devices that compute, for some seconds, because what they use is about to go. In a forked child it waits for
//      nothing.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/helped_thread.h"
#include "pathways/client/client.h"

namespace pw::pathways_pjrt {

// A session with a cluster of this process.
struct OwnSession {
  std::shared_ptr<const void> cluster;  // outlives the client
  HelpedThread* thread;                 // the cluster's; lives as long
  std::unique_ptr<client::Client> client;
};

// `flags`: of the cluster, as the program pathways-local has them, one a line; also `--log=FILE`, which takes this library's log lines.
absl::StatusOr<OwnSession> OpenOwnSession(const std::string& flags, const std::string& description);

}  // namespace pw::pathways_pjrt
