// NodeCalls: calls that nodes of programs make to Python functions of this process (SessionHostCall). Their operands are fetched, and their
// results are host buffers; both travel by lane. Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class NodeCalls {
 public:
  // The session, as calls use it.
  struct Owner {
    // Fetches an array by lane. `bytes`: its size, if that is known.
    std::function<void(session::Handle array, std::optional<int64_t> bytes, session::ResultCallback<Bytes> done)> fetch;
    // Makes the bytes a host buffer that goes by lane; returns its handle.
    std::function<session::Handle(Bytes data)> offer;
    std::function<void(::pathways::v1::SessionRequest request)> send;
  };
  explicit NodeCalls(Owner owner) : owner_(std::move(owner)) {}

  // Sets the handler of the calls; null: they fail.
  void SetHandler(std::shared_ptr<session::HostCallHandler> handler) { handler_ = std::move(handler); }
  void OnCall(const ::pathways::v1::SessionHostCall& call);
  // Drops the calls that have not been answered: their session is over.
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
