// NodeCalls: answers the calls of Python functions that are nodes of a program (`@pw.program`). The controller sends such a call
// (SessionHostCall, session.proto) when the operands have values. NodeCalls fetches the operands from the hosts, calls the handler, and
// offers each result to the hosts as a host buffer. Both ways, the bytes go by lane (lanes/lane_end.h). Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class NodeCalls {
 public:
  // The parts of the session that calls use.
  struct Owner {
    // Fetches an array from the hosts. `bytes`: its size, if known.
    std::function<void(session::Handle array, std::optional<int64_t> bytes, session::ResultCallback<Bytes> done)> fetch;
    // Makes a host buffer of the bytes, which hosts can ask for. Returns the buffer's handle.
    std::function<session::Handle(Bytes data)> offer;
    // Sends the reply to the controller.
    std::function<void(::pathways::v1::SessionRequest request)> send;
  };
  explicit NodeCalls(Owner owner) : owner_(std::move(owner)) {}

  // Sets the handler of the calls; null: they fail.
  void SetHandler(std::shared_ptr<session::HostCallHandler> handler) { handler_ = std::move(handler); }
  void OnCall(const ::pathways::v1::SessionHostCall& call);
  // Drops the unanswered calls, because their session is over.
  void End() { alive_ = nullptr; }

 private:
  struct Call;
  void Run(Call& call);
  void Reply(uint64_t call, absl::StatusOr<std::vector<Bytes>> results);

  const Owner owner_;
  std::shared_ptr<session::HostCallHandler> handler_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // held weakly by callbacks
};

}  // namespace pw::client
