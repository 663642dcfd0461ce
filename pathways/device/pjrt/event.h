// Converts PJRT events to callbacks and futures.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"

#include "pathways/base/threads/future.h"
#include "pathways/device/pjrt/api.h"

namespace pw::device::pjrt {

// Runs `callback` once the event is set: inline if it is set already, else on a thread of the plugin. Takes ownership of the event.
void WhenReady(const Api& api, PJRT_Event* event, absl::AnyInvocable<void(absl::Status) &&> callback);

// Returns a future that is set when all events are, to the first error if any. Takes ownership of the events.
Future<Unit> JoinEvents(const Api& api, absl::Span<PJRT_Event* const> events);

}  // namespace pw::device::pjrt
