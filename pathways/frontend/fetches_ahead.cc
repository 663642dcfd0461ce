#include "pathways/frontend/fetches_ahead.h"

#include <algorithm>

namespace pw::frontend {
namespace {

constexpr size_t kRunsKept = 32;        // arrays are recognized as outputs of these last runs
constexpr size_t kReplicatedKept = 32;  // and as these last shards
constexpr size_t kMostOutputs = 8;      // of one executable

bool IsSmall(const buffers::ArraySpec& spec) {
  if (spec.sharding.num_tiles() != 1 || buffers::HostBytes(spec.dtype) == 0) return false;
  const auto dims = spec.sharding.ShardDims(spec.dims, 0);
  if (!dims.ok()) return false;
  const auto bytes = buffers::DenseBytes(spec.dtype, *dims);
  return bytes.ok() && *bytes <= FetchesAhead::kMostBytes;
}

}  // namespace

void FetchesAhead::Fetch::Complete(absl::StatusOr<Bytes> bytes) {
  data = std::move(bytes);
  for (auto& done : std::exchange(waiting, {})) std::move(done)(*data);
}

void FetchesAhead::Fetch::Await(session::ResultCallback<Bytes> done) {
  if (!data.has_value()) return waiting.push_back(std::move(done));
  std::move(done)(*data);
}

FetchesAhead::Made::~Made() {
  if (read) return;
  --output->unread;
  output->reads = 0;
}

void FetchesAhead::Made::OnRead(const Strides& as) {
  if (std::exchange(read, true)) return;
  --output->unread;
  output->reads = output->strides == as ? output->reads + 1 : 1;
  output->strides = as;
}

void FetchesAhead::OnRun(const SessionRef& session, Handle executable, absl::Span<const Handle> results) {
  Run run;
  if (runs_.size() == kRunsKept) {
    run = std::move(runs_.front());
    runs_.pop_front();
  }
  run.executable = executable;
  run.results.assign(results.begin(), results.end());
  runs_.push_back(std::move(run));
  const auto outputs = outputs_.find(executable);
  if (outputs == outputs_.end()) return;
  for (const std::shared_ptr<Output>& output : outputs->second) {
    if (output->index >= results.size()) continue;
    const Handle array = results[output->index];
    auto made = std::make_shared<Made>(output);
    if (output->reads >= kReadsInARow && output->unread <= kMostUnread) {
      made->strides = output->strides;
      made->fetch = Ask(session, array, output->strides);
    }
    made_[array] = std::move(made);
  }
}

std::shared_ptr<FetchesAhead::Fetch> FetchesAhead::Ask(const SessionRef& session, Handle array, const Strides& strides) {
  auto fetch = std::make_shared<Fetch>();
  const Handle buffer = session->NewHandle();
  session->CopyToHostBuffer(
      array, buffer, strides, [fetch, buffer, weak = std::weak_ptr<session::Session>(session)](absl::Status status) {
        const SessionRef session = weak.lock();
        if (status.ok() && session == nullptr) status = absl::CancelledError("the session has ended");
        if (!status.ok()) return fetch->Complete(status);
        session->LookupHostBuffer(buffer, [fetch](absl::StatusOr<Bytes> data) { fetch->Complete(std::move(data)); });
        session->DeleteHostBuffer(buffer).IgnoreError();
      });
  return fetch;
}

void FetchesAhead::OnReplicatedShard(Handle shard, Handle array) {
  if (auto made = made_.find(array); made != made_.end()) {
    std::shared_ptr<Made> same = made->second;
    made_[shard] = std::move(same);
    return;
  }
  if (replicated_.size() == kReplicatedKept) replicated_.pop_front();
  replicated_.emplace_back(shard, array);
}

void FetchesAhead::OnArraysGone(absl::Span<const Handle> arrays) {
  for (Handle array : arrays) made_.erase(array);
}

void FetchesAhead::Watch(session::Session& session, Handle array, const Strides& strides) {
  const auto spec = session.Spec(array);
  if (!spec.ok() || !IsSmall(*spec)) return;
  const auto shard = std::find_if(replicated_.begin(), replicated_.end(), [&](const auto& pair) { return pair.first == array; });
  const Handle whole = shard == replicated_.end() ? array : shard->second;
  for (const Run& run : runs_) {
    const auto result = std::find(run.results.begin(), run.results.end(), whole);
    if (result == run.results.end()) continue;
    const size_t index = static_cast<size_t>(result - run.results.begin());
    auto& outputs = outputs_[run.executable];
    const bool known = std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) { return output->index == index; });
    if (known || outputs.size() == kMostOutputs) return;
    outputs.push_back(std::make_shared<Output>(Output{index, strides}));
    return;
  }
}

bool FetchesAhead::CopyToHostBuffer(session::Session& session, Handle array, Handle host_buffer, const Strides& strides,
                                    session::StatusCallback& done) {
  const auto found = made_.find(array);
  if (found == made_.end()) {
    Watch(session, array, strides);
    return false;
  }
  Made& made = *found->second;
  made.OnRead(strides);
  if (made.fetch == nullptr || made.strides != strides || host_buffer == 0) return false;
  if (!buffers_->try_emplace(host_buffer, made.fetch).second) return false;
  made.fetch->Await(
      [weak = std::weak_ptr<Buffers>(buffers_), host_buffer, done = std::move(done)](absl::StatusOr<Bytes> data) mutable {
        if (auto buffers = weak.lock(); buffers != nullptr && !data.ok()) buffers->erase(host_buffer);
        std::move(done)(data.status());
      });
  return true;
}

bool FetchesAhead::LookupHostBuffer(Handle host_buffer, session::ResultCallback<Bytes>& done) {
  const auto found = buffers_->find(host_buffer);
  if (found == buffers_->end()) return false;
  const std::shared_ptr<Fetch> fetch = found->second;
  fetch->Await(std::move(done));
  return true;
}

}  // namespace pw::frontend
