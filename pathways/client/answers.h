// Adapters that turn the callback of a value or of a status into the callback of a request to the controller.
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

using AnswerCallback = absl::AnyInvocable<void(absl::StatusOr<::pathways::v1::Answer>, Bytes payload) &&>;

// Passes on the value that `read` finds in the answer: read(answer, payload).
template <class T, class F>
AnswerCallback Reading(session::ResultCallback<T> done, F read) {
  return [done = std::move(done), read = std::move(read)](absl::StatusOr<::pathways::v1::Answer> answer, Bytes payload) mutable {
    if (!answer.ok()) return std::move(done)(answer.status());
    std::move(done)(read(*answer, payload));
  };
}

inline AnswerCallback ReadingStatus(session::StatusCallback done) {
  return [done = std::move(done)](absl::StatusOr<::pathways::v1::Answer> answer, Bytes) mutable {
    std::move(done)(answer.status());
  };
}

}  // namespace pw::client
