// Handlers: the requests of the proxy protocol, as a table with an entry for each kind. Each family has a file in handlers/.
//
// A request passes two stages. Its decoder runs on the stream's thread and turns the message into an Action, without touching any
// session. The action runs on the controller's strand, in stream order. It answers through its Reply, at once or later.
//
// A decoder never fails. For an invalid message it returns an action that answers with the error and binds it to the results.
#pragma once

#include <array>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::frontend {

using IfrtRequest = xla::ifrt::proxy::IfrtRequest;
using IfrtResponse = xla::ifrt::proxy::IfrtResponse;

class ClientSession;
class Reply;

using Action = absl::AnyInvocable<void(ClientSession&, Reply) &&>;

struct Handler {
  IfrtRequest::RequestCase kind;
  absl::string_view name;
  Action (*decode)(const IfrtRequest& request);
  bool numbered = true;    // counts in ResponseMetadata.seq_num (ifrt_service.proto)
  bool waited_for = true;  // a thread of the client may block on the answer; else the answer may be sent later, with others
};

// The families.
absl::Span<const Handler> InitHandlers();
absl::Span<const Handler> MakeArrayHandlers();
absl::Span<const Handler> ArrayHandlers();
absl::Span<const Handler> ArrayLifeHandlers();
absl::Span<const Handler> CompileHandlers();
absl::Span<const Handler> ExecutableHandlers();
absl::Span<const Handler> ExecuteHandlers();
absl::Span<const Handler> DefaultsHandlers();

// All handlers, by request kind. Immutable: any thread.
class HandlerTable {
 public:
  HandlerTable();
  // Returns null for an unknown kind, which a newer client may send.
  const Handler* Find(IfrtRequest::RequestCase kind) const;

 private:
  std::array<const Handler*, 64> handlers_{};
};

}  // namespace pw::frontend
