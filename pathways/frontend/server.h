// Server: the front door. It listens for stock jaxlib clients (the IFRT proxy protocol over gRPC) and turns their requests into
// calls of the cluster.
//
// Threads. gRPC's threads read, parse and decode. Code that touches sessions runs on the cluster's strand (Cluster::Post), which
// never waits for the network. File reads have a small pool of their own.
//
// Invariants:
//   FS-1  the requests of one session take effect in stream order
//   FS-2  a client, suspended or not, makes the server hold at most max_backlog_requests messages that have not run or are not
//         sent, max_backlog_bytes of requests, and the host buffers that Session::AnnounceHostBuffer admits. Beyond that, reading
//         waits
//   FS-3  a bad message ends at most its own session, with a status that names the fault
//   FS-4  when a stream ends, for any reason, its session is destroyed in the next turn of the strand
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  // The folder in which clients on this machine leave host buffers as files (shared_directory.h); empty: there is none.
  std::string shared_directory;
  // Folders for profiles that plugin programs write on this machine (storage/files.h, Roots): for paths, and for gs://...
  std::string persistence_directory;
  std::string object_directory;
  // The command of a helper that translates programs newer than the devices' runtime, for clients whose own process cannot
  // (translation/helper_translator.h); empty: there is none.
  std::vector<std::string> translator;
  int64_t max_message_bytes = int64_t{256} << 20;
  int64_t max_backlog_requests = 16384;
  int64_t max_backlog_bytes = int64_t{64} << 20;
  // A machine that vanishes without closing its connection is noticed after the sum of the two.
  absl::Duration keepalive_interval = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(20);
};

// Reads HOST:PORT into `options`. INVALID_ARGUMENT names the flag that held the address.
absl::Status ParseListenAddress(const std::string& address, const std::string& flag, ServerOptions* options);
// Returns a command for ServerOptions::translator. `python`: an interpreter in which our package is installed.
std::vector<std::string> TranslatorCommand(const std::string& python);

class Server {
 public:
  // Listens at once. `cluster` outlives the server, and its strand runs until Shutdown has returned. UNAVAILABLE if the port is
  // taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, controller::Cluster* cluster);
  ~Server();  // as Shutdown

  int port() const;
  // Adds the process that answers host calls of sessions with this token (session_table.h). On the cluster's strand.
  absl::Status AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> handler);
  void RemoveCompanion(const std::string& token);
  // Calls `done` with the metrics for Prometheus (metrics_page.h), on the cluster's strand. Any thread; not after Shutdown.
  void GetMetrics(absl::AnyInvocable<void(std::string) &&> done);
  // Ends all sessions and stops listening. Not on the cluster's strand. A second call does nothing.
  void Shutdown();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace pw::frontend
