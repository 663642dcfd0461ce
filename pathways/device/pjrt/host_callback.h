// Host callbacks: the custom call `pathways_host_callback_call`, through which a running program reaches a Python function of the
// client; and `pathways_host_callback_on_shards`, the same for each device's shards.
//
// It is a typed FFI handler, registered with the plugin when the runtime starts. Its attribute `callback` (64-bit integer) is the
// client's name for the function; it takes any operands and gives any results. The call is asynchronous: no thread of the plugin
// waits for the client. Which session a call belongs to comes with the execution, as user data of its context.
//
// Invariants:
//   HC-1  a handler call completes exactly once: with the reply, with its error, or with an error of ours if the reply does not
//         fit
//   HC-2  operands are copied before the handler returns; results are written before it completes
//   HC-3  dropping HostCallbacks makes later calls fail; calls under way still complete
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "pathways/base/growing_pool.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

class HostCallbacks;

// The program with its host callbacks under the name that XLA expects of such calls.
std::string WithXlaNames(absl::string_view program);

// What one execution carries: alive until it is done.
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
  // UNIMPLEMENTED where the plugin has no FFI, or its devices do not share the host's memory.
  static absl::StatusOr<std::shared_ptr<HostCallbacks>> Register(std::shared_ptr<const Client> client);

  absl::StatusOr<std::shared_ptr<CallContext>> MakeContext(SessionId session);
  void SetHandler(HostCallHandler handler);
  void Call(HostCallRequest request, std::function<void(HostCallReply)> done);
  const Client& client() const { return *client_; }
  // Where calls are completed. XLA goes on with the program on that thread, which may then wait in a collective for other devices, and
  // they for the completion of calls of theirs.
  std::shared_ptr<Executor> completions() const { return completions_; }

 private:
  explicit HostCallbacks(std::shared_ptr<const Client> client) : client_(std::move(client)) {}

  const std::shared_ptr<const Client> client_;
  const std::shared_ptr<GrowingPool> completions_ = std::make_shared<GrowingPool>("pw-callbacks");
  std::mutex mu_;
  std::shared_ptr<const HostCallHandler> handler_;  // guarded by mu_
};

}  // namespace pw::device::pjrt
