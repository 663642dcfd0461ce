// Server: the front door. Listens for stock jaxlib clients (the IFRT proxy protocol over gRPC) and turns their requests into calls on the cluster.
//
// Threads. gRPC's threads read, parse and decode; everything that touches sessions runs on the cluster's strand (Cluster::Post),
// which never waits for the network. File reads have a small pool of their own.
//
// Invariants:
//   FS-1  the requests of one session take effect in stream order
//   FS-2  a client, suspended or not, cannot make the server hold more than max_backlog_requests unexecuted or unsent messages or
//         max_backlog_bytes of them, nor more host buffers than controller::SessionLimits::staged_bytes: what it sends beyond is not read
//         until there is room
//   FS-3  a bad message ends at most its own session, with a status that says what was wrong
//   FS-4  when a stream ends, for whatever reason, its session is destroyed in the next turn of the strand
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  // Where clients on this machine leave host buffers as files (shared_directory.h); empty: that way is closed.
  std::string shared_directory;
  // Plugin programs may write profiles on this machine (storage/files.h, Roots): to paths below the first folder, and gs://... into the second.
  std::string persistence_directory;
  std::string object_directory;
  // What translates programs that are newer than the devices' runtime, for clients whose own process cannot
  // (translation/helper_translator.h); empty: nothing does.
  std::vector<std::string> translator;
  int64_t max_message_bytes = int64_t{256} << 20;
  int64_t max_backlog_requests = 16384;
  int64_t max_backlog_bytes = int64_t{64} << 20;
  // A client whose machine has vanished without closing its connection is noticed after the sum of the two.
  absl::Duration keepalive_interval = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(20);
};

// Reads HOST:PORT into `options`. INVALID_ARGUMENT names the flag that it came from.
absl::Status ParseListenAddress(const std::string& address, const std::string& flag, ServerOptions* options);
// The command for ServerOptions::translator by this Python, in which our package is installed.
std::vector<std::string> TranslatorCommand(const std::string& python);

class Server {
 public:
  // Listens at once. `cluster` outlives the server, and its strand runs until Shutdown has returned. UNAVAILABLE if the port is
  // taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, controller::Cluster* cluster);
  ~Server();  // as Shutdown

  int port() const;
  // The process whose sessions carry this token answers host calls through `handler` (session_table.h). On the cluster's strand.
  absl::Status AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> handler);
  void RemoveCompanion(const std::string& token);
  // Ends all sessions and stops listening. Not on the cluster's strand. A second call does nothing.
  void Shutdown();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace pw::frontend
