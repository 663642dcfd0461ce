// ClientTranslator: lets the client's own process translate its program. It calls function kTranslateCallback of that process, as
// running computations call Python functions (callbacks/call_message.h).
//
// NOT_FOUND: the client's package is too old to have that function. DEADLINE_EXCEEDED: no answer came within the limit; a later
// one is dropped.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/frontend/translation/program_translator.h"

namespace pw::frontend {

// The callback number that callbacks/call_message.h reserves for translation.
inline constexpr uint64_t kTranslateCallback = 0;

class ClientTranslator final : public ProgramTranslator {
 public:
  // `timers` and `strand` must outlive every call.
  ClientTranslator(std::shared_ptr<controller::HostCallHandler> channel, Timers* timers, Executor* strand, absl::Duration limit)
      : channel_(std::move(channel)), timers_(timers), strand_(strand), limit_(limit) {}

  void Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) override;

 private:
  const std::shared_ptr<controller::HostCallHandler> channel_;
  Timers* const timers_;
  Executor* const strand_;
  const absl::Duration limit_;
};

}  // namespace pw::frontend
