#include "pathways/dataflow/batching.h"

#include <utility>

namespace pw::dataflow {

void Batcher::Opened(HostId to, bool critical) {
  if (critical) {
    critical_.push_back(to);
    return;
  }
  hosts_[to].opened = next_opened_;
  due_.push_back({clock_->Now() + knobs_.max_delay, to, next_opened_++});
}

void Batcher::Full(HostId to, bool critical) {
  if (!critical) ++counters_.full;
  EmitFrame(to, critical);
}

void Batcher::EmitFrame(HostId to, bool critical) {
  Host& host = hosts_[to];
  FrameBuilder frame = std::exchange(critical ? host.critical : host.coalesced, FrameBuilder());
  if (!critical) host.opened = 0;
  ++(critical ? counters_.critical_frames : counters_.coalesced_frames);
  emit_(to, critical, std::move(frame));
}

void Batcher::FlushCritical() {
  // Emitting may add critical messages; they leave in this loop too.
  for (size_t i = 0; i < critical_.size(); ++i) {
    auto it = hosts_.find(critical_[i]);
    if (it != hosts_.end() && !it->second.critical.empty()) EmitFrame(HostId(critical_[i]), true);
  }
  critical_.clear();
}

bool Batcher::Stale(const Due& due) const {
  auto it = hosts_.find(due.host);
  return it == hosts_.end() || it->second.opened != due.opened;
}

std::optional<absl::Time> Batcher::NextDue() {
  while (!due_.empty() && Stale(due_.front())) due_.pop_front();
  if (due_.empty()) return std::nullopt;
  return due_.front().at;
}

void Batcher::FlushDue() { FlushUntil(clock_->Now()); }

void Batcher::FlushAll() {
  FlushCritical();
  FlushUntil(absl::InfiniteFuture());
}

void Batcher::FlushUntil(absl::Time limit) {
  while (!due_.empty() && (Stale(due_.front()) || due_.front().at <= limit)) {
    const Due due = due_.front();
    due_.pop_front();
    if (Stale(due)) continue;
    ++counters_.due;
    EmitFrame(due.host, false);
  }
}

void Batcher::SetKnobs(const BatchingKnobs& knobs) {
  FlushAll();
  knobs_ = knobs;
}

size_t Batcher::waiting_bytes(HostId to, bool critical) const {
  auto it = hosts_.find(to);
  if (it == hosts_.end()) return 0;
  return critical ? it->second.critical.bytes() : it->second.coalesced.bytes();
}

}  // namespace pw::dataflow
