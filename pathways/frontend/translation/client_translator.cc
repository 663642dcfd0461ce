#include "pathways/frontend/translation/client_translator.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::frontend {
namespace {

controller::HostLayout OfBytes(const Bytes& bytes) {
  return {buffers::DType::kU8, {static_cast<int64_t>(bytes.size())}, std::nullopt};
}

absl::StatusOr<Bytes> OnlyResult(absl::StatusOr<std::vector<Bytes>> results) {
  if (!results.ok()) {
    return absl::Status(results.status().code(),
                        absl::StrCat("the client's process did not translate it: ", results.status().message()));
  }
  if (results->size() != 1)
    return absl::InternalError(absl::StrCat("the client's process answered with ", results->size(), " translations"));
  return std::move(results->front());
}

}  // namespace

void ClientTranslator::Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) {
  // Either the answer or the timeout calls `done`, whichever comes first.
  auto waiting = std::make_shared<controller::ResultCallback<Bytes>>(std::move(done));
  auto answer = [waiting](absl::StatusOr<Bytes> result) {
    if (auto first = std::exchange(*waiting, nullptr)) std::move(first)(std::move(result));
  };
  timers_->After(limit_, strand_, [answer, limit = limit_] {
    answer(
        absl::DeadlineExceededError(absl::StrCat("the client's process did not translate it within ", absl::FormatDuration(limit),
                                                 ": it may be stopped, or busy in a call that keeps Python's lock")));
  });
  const Bytes target = Bytes::FromString(std::move(version));
  controller::HostCall call{kTranslateCallback, {OfBytes(program), OfBytes(target)}, {program, target}};
  channel_->OnHostCall(std::move(call),
                       [answer](absl::StatusOr<std::vector<Bytes>> results) { answer(OnlyResult(std::move(results))); });
}

}  // namespace pw::frontend
