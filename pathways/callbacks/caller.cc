#include "pathways/callbacks/caller.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::callbacks {

void Caller::OnHostCall(session::HostCall call, session::ResultCallback<std::vector<Bytes>> done) {
  if (closed_) return std::move(done)(absl::UnavailableError("the client's process has closed its callback socket"));
  const uint64_t number = next_++;
  calls_.emplace(number, std::move(done));
  send_(number, std::move(call));
}

absl::Status Caller::OnAnswer(uint64_t number, absl::StatusOr<std::vector<Bytes>> results) {
  auto node = calls_.extract(number);
  if (node.empty())
    return absl::InvalidArgumentError(absl::StrCat("an answer came for call ", number, ", which is not under way"));
  std::move(node.mapped())(std::move(results));
  return absl::OkStatus();
}

void Caller::OnClosed() {
  closed_ = true;
  auto calls = std::exchange(calls_, {});
  for (auto& [number, done] : calls)
    std::move(done)(absl::UnavailableError("the client's process closed its callback socket during the call of a function"));
}

}  // namespace pw::callbacks
