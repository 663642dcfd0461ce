#include "pathways/frontend/handler.h"

#include "pathways/base/log.h"

namespace pw::frontend {

HandlerTable::HandlerTable() {
  for (absl::Span<const Handler> family : {InitHandlers(), MakeArrayHandlers(), ArrayHandlers(), ArrayLifeHandlers(),
                                           CompileHandlers(), ExecutableHandlers(), ExecuteHandlers(), DefaultsHandlers()}) {
    for (const Handler& handler : family) {
      PW_CHECK(handlers_[handler.kind] == nullptr);
      handlers_[handler.kind] = &handler;
    }
  }
}

const Handler* HandlerTable::Find(IfrtRequest::RequestCase kind) const {
  const auto index = static_cast<size_t>(kind);
  return index < handlers_.size() ? handlers_[index] : nullptr;
}

}  // namespace pw::frontend
