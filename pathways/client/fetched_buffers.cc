#include "pathways/client/fetched_buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::client {

absl::Status FetchedBuffers::Begin(Handle buffer) {
  if (buffer != 0 && buffers_.try_emplace(buffer).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("host buffer ", buffer, " exists already, or is 0"));
}

void FetchedBuffers::Fill(Handle buffer, const absl::StatusOr<Bytes>& data) {
  auto it = buffers_.find(buffer);
  if (it == buffers_.end()) return;
  auto waiting = std::exchange(it->second.waiting, {});
  if (data.ok() && !it->second.deleted)
    it->second.data = data;
  else
    buffers_.erase(it);
  for (auto& lookup : waiting) std::move(lookup)(data);
}

void FetchedBuffers::Lookup(Handle buffer, session::ResultCallback<Bytes> done) {
  auto it = buffers_.find(buffer);
  if (it == buffers_.end()) return Answer(std::move(done), Unknown(buffer));
  if (!it->second.data.has_value()) return it->second.waiting.push_back(std::move(done));
  Answer(std::move(done), *it->second.data);
}

absl::Status FetchedBuffers::Delete(Handle buffer) {
  auto it = buffers_.find(buffer);
  if (it == buffers_.end()) return Unknown(buffer);
  if (it->second.data.has_value())
    buffers_.erase(it);
  else
    it->second.deleted = true;  // lookups that wait still get it
  return absl::OkStatus();
}

void FetchedBuffers::End(const absl::Status& error) {
  ended_ = error;
  for (auto& [buffer, fetched] : std::exchange(buffers_, {})) {
    for (auto& done : fetched.waiting) Answer(std::move(done), error);
  }
}

absl::Status FetchedBuffers::Unknown(Handle buffer) const {
  if (!ended_.ok()) return ended_;
  return absl::NotFoundError(absl::StrCat("host buffer ", buffer, " is unknown: no copy to a host buffer has named it"));
}

void FetchedBuffers::Answer(session::ResultCallback<Bytes> done, absl::StatusOr<Bytes> data) {
  executor_->Post([done = std::move(done), data = std::move(data)]() mutable { std::move(done)(std::move(data)); });
}

}  // namespace pw::client
