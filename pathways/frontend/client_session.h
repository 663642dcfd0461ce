// ClientSession: one client's session as the proxy protocol sees it, between the wire and the controller's Session.
//
// It adds to the controller's Session what belongs to the protocol alone: negotiated versions, futures, numbering of responses,
// release of user contexts, and programs that the front end carries out itself. Owned by its stream; strand-confined.
//
// Invariants:
//   CS-1  requests run in the order of Run calls; until init_request has succeeded, all others fail
//   CS-2  each request is answered exactly once (Reply)
//   CS-3  seq_num counts 0, 1, 2, ... over the successful numbered responses, in the order in which they are written
//   CS-4  a request's user context is released once, by a numbered response that is written after the request arrived
//   CS-5  End destroys the controller's session; nothing is written after it
//   CS-6  while the controller's session is being opened, or is suspended, requests are held; then they run in order. Ran reports
//         a request to the sink when it has run, so that held requests count in the client's backlog
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/threads/future.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/fetches_ahead.h"
#include "pathways/frontend/handler.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"
#include "pathways/frontend/plugin_programs/services.h"
#include "pathways/frontend/reply.h"
#include "pathways/frontend/trace_recorder.h"

namespace pw::frontend {

class SessionTable;

// The keys of initialization_data for a client's share (gang/share.h), as text.
inline constexpr char kWeightKey[] = "pathways_weight";
inline constexpr char kPriorityKey[] = "pathways_priority";
// The key of what follows when one of its computations hangs: "end", its session ends, or "report", the default.
inline constexpr char kOnHangKey[] = "pathways_on_hang";

// The client's settings from the opening of its stream.
struct SessionHello {
  int protocol_version = 0;
  int serdes_version = 0;
  std::string peer;
  Attributes initialization_data;
};

// The receiver of responses. Write takes them in order and does not block. Ran: a request of `bytes` on the wire has run.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  virtual void Write(IfrtResponse response) = 0;
  virtual void Ran(int64_t bytes) { (void)bytes; }
};

// A decoded request (handler.h).
struct DecodedRequest {
  uint64_t op_id = 0;
  uint64_t user_context = 0;
  int64_t bytes = 0;  // on the wire
  const Handler* handler = nullptr;
  Action action;
};

// Decodes a request, on any thread. A request of unknown kind has no handler; running it answers UNIMPLEMENTED.
DecodedRequest Decode(const HandlerTable& handlers, const IfrtRequest& request);

class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // All pointers must stay valid until the session's End; `services` as long as the session.
  ClientSession(controller::Cluster* cluster, SessionTable* table, const PluginServices* services, SessionHello hello,
                ResponseSink* sink);
  ~ClientSession();

  void Run(DecodedRequest request);
  void End();

  // Returns false once End has been called; then session() does not exist either.
  bool open() const { return sink_ != nullptr; }
  const SessionHello& hello() const { return hello_; }
  // The number by which host-buffer calls name the session; 0 before Initialize has succeeded.
  uint64_t wire_id() const { return wire_id_; }
  controller::Cluster& cluster() { return *cluster_; }
  const PluginServices& services() const { return *services_; }
  // REQUIRES: initialized (true in every action but init's).
  controller::Session& session() { return *session_; }
  const std::shared_ptr<controller::Session>& shared_session() const { return session_; }
  const controller::ClusterInfo& cluster_info() const { return *cluster_info_; }
  FetchesAhead& fetches_ahead() { return fetches_ahead_; }
  // Like the session's methods, for the buffers of fetches_ahead() too.
  void LookupHostBuffer(controller::Handle handle, controller::ResultCallback<Bytes> done);
  absl::Status DeleteHostBuffer(controller::Handle handle);
  // Returns the handler of calls into the client's Python; null if there is none now.
  std::shared_ptr<controller::HostCallHandler> companion() const;

  // --- for the handlers ---
  // Opens the controller's session; other requests are held until then. `done` gets the number by which host-buffer calls name it.
  // FAILED_PRECONDITION the second time.
  void Initialize(controller::ResultCallback<uint64_t> done);
  // The front end's own futures (the controller's session has others), each for one CheckFuture or FetchExecuteResult. `of_delete`: the
  // answer does not count in seq_num.
  struct WireFuture {
    Future<Unit> value;
    bool of_delete = false;
  };
  void AddFuture(controller::Handle handle, WireFuture future);
  std::optional<WireFuture> TakeFuture(controller::Handle handle);
  // Binds an error to those of `results` that are not 0.
  void Poison(absl::Span<const controller::Handle> results, const absl::Status& error);
  // Executables that the front end carries out itself.
  absl::flat_hash_map<controller::Handle, std::shared_ptr<PluginExecutable>>& plugin_executables() { return plugin_executables_; }
  // Executables that the client has deleted but not destructed.
  absl::flat_hash_set<controller::Handle>& deleted_executables() { return deleted_executables_; }

  // The running profile, or null.
  TraceRecorder* recorder() { return recorder_.get(); }
  void StartRecording() { recorder_ = std::make_unique<TraceRecorder>(services_->clock); }
  std::unique_ptr<TraceRecorder> StopRecording() { return std::move(recorder_); }

  // --- for Reply ---
  void Respond(IfrtResponse response, bool numbered);

 private:
  void RunNow(DecodedRequest request);
  void CarryOut(DecodedRequest request);
  void RunHeld();
  bool waits() const { return opening_ || (session_ != nullptr && session_->suspended()); }
  absl::StatusOr<uint64_t> OnOpened(std::shared_ptr<controller::Session> session);

  controller::Cluster* const cluster_;
  SessionTable* const table_;
  const PluginServices* const services_;
  const SessionHello hello_;
  ResponseSink* sink_;  // null after End
  std::shared_ptr<controller::Session> session_;
  std::shared_ptr<const controller::ClusterInfo> cluster_info_;
  bool opening_ = false;
  std::deque<DecodedRequest> held_;  // CS-6
  uint64_t wire_id_ = 0;
  int64_t next_seq_num_ = 0;
  std::vector<uint64_t> released_contexts_;
  std::unique_ptr<TraceRecorder> recorder_;
  FetchesAhead fetches_ahead_;
  absl::flat_hash_map<controller::Handle, WireFuture> futures_;
  absl::flat_hash_map<controller::Handle, std::shared_ptr<PluginExecutable>> plugin_executables_;
  absl::flat_hash_set<controller::Handle> deleted_executables_;
};

}  // namespace pw::frontend
