// HostCallbacks: lets a running program call a Python function of the client, through the custom call `pathways_host_callback_call`, or
// `pathways_host_callback_on_shards`, which each device calls with its own shards.
//
// The custom call is a typed FFI handler, registered with the plugin when the runtime starts. Its attribute `callback` (64-bit integer) is
// the client's id of the function; it accepts any operands and results. The call is asynchronous: no thread of the plugin waits for the
// client. The execution's context carries the session of the call as user data.
//
// Invariants:
//   HC-1  a handler call completes exactly once: with the reply, with its error, or with an error of ours if the reply does not fit
//   HC-2  operands are copied before the handler returns; results are written before the call completes
//   HC-3  after HostCallbacks is dropped, new calls fail; calls in progress still complete
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "pathways/base/threads/growing_pool.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

class HostCallbacks;

// Renames the host callbacks in a program to the name that XLA expects of such calls.
std::string WithXlaNames(absl::string_view program);

// The context of one execution; lives until the execution is done.
class CallContext {
 public:
  CallContext(std::shared_ptr<HostCallbacks> owner, SessionId session, PJRT_ExecuteContext* handle)
      : owner_(std::move(owner)), session_(session), handle_(handle) {}
  ~CallContext();
  CallContext(const CallContext&) = delete;

  PJRT_ExecuteContext* handle() const { return handle_; }
  SessionId session() const { return session_; }
  HostCallbacks& owner() const { return *owner_; }

 private:
  const std::shared_ptr<HostCallbacks> owner_;
  const SessionId session_;
  PJRT_ExecuteContext* const handle_;
};

class HostCallbacks : public std::enable_shared_from_this<HostCallbacks> {
 public:
  // UNIMPLEMENTED if the plugin has no FFI, or its platform is not "cpu", where devices share the host's memory.
  static absl::StatusOr<std::shared_ptr<HostCallbacks>> Register(std::shared_ptr<const Client> client);

  absl::StatusOr<std::shared_ptr<CallContext>> MakeContext(SessionId session);
  void SetHandler(HostCallHandler handler);
  void Call(HostCallRequest request, std::function<void(HostCallReply)> done);
  const Client& client() const { return *client_; }
  // Returns the pool on which calls complete. XLA continues the program on that thread. There it may wait in a collective for
  // other devices, and these for the completion of their own calls. Hence the pool grows.
  std::shared_ptr<Executor> completions() const { return completions_; }

 private:
  explicit HostCallbacks(std::shared_ptr<const Client> client) : client_(std::move(client)) {}

  const std::shared_ptr<const Client> client_;
  const std::shared_ptr<GrowingPool> completions_ = std::make_shared<GrowingPool>("pw-callbacks");
  std::mutex mu_;
  std::shared_ptr<const HostCallHandler> handler_;  // guarded by mu_
};

}  // namespace pw::device::pjrt
