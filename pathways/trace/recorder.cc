#include "pathways/trace/recorder.h"

#include <algorithm>
#include <utility>

namespace pw::trace {

std::string_view ToString(Kind kind) {
  switch (kind) {
    case Kind::kRequest:
      return "request";
    case Kind::kPrepare:
      return "prepare";
    case Kind::kGrant:
      return "grant";
    case Kind::kRun:
      return "run";
    case Kind::kTransfer:
      return "transfer";
    case Kind::kEnd:
      return "end";
    case Kind::kHost:
      return "host";
  }
  return "unknown";
}

void Recording::Shift(absl::Duration by) {
  for (Event& event : events) event.begin += by;
  started += by;
}

void Recorder::Start(size_t limit) {
  on_ = true;
  limit_ = limit;
  started_ = clock_->Now();
  recording_ = {};
  recording_.started = started_;
  tracks_.clear();
}

Recording Recorder::Stop() {
  on_ = false;
  tracks_.clear();
  return std::exchange(recording_, {});
}

void Recorder::Span(Kind kind, std::string_view track, std::string name, absl::Time begin, Links links) {
  if (on_) Span(kind, track, std::move(name), begin, clock_->Now(), std::move(links));
}

void Recorder::Span(Kind kind, std::string_view track, std::string name, absl::Time begin, absl::Time end, Links links) {
  if (!on_) return;
  const absl::Time from = std::max(begin, started_);
  Add({kind, 0, std::move(name), from, std::max(end, from) - from, links.flow, links.bytes, links.gang, std::move(links.needs),
       std::move(links.makes), links.session},
      track);
}

void Recorder::Instant(Kind kind, std::string_view track, std::string name, Links links) {
  if (!on_) return;
  Add({kind, 0, std::move(name), clock_->Now(), absl::ZeroDuration(), links.flow, links.bytes, links.gang, std::move(links.needs),
       std::move(links.makes), links.session},
      track);
}

void Recorder::Add(Event event, std::string_view track) {
  if (recording_.events.size() >= limit_) {
    ++recording_.dropped;
    return;
  }
  event.track = Track(track);
  recording_.events.push_back(std::move(event));
}

uint32_t Recorder::Track(std::string_view name) {
  auto [it, is_new] = tracks_.try_emplace(std::string(name), static_cast<uint32_t>(recording_.tracks.size()));
  if (is_new) recording_.tracks.emplace_back(name);
  return it->second;
}

}  // namespace pw::trace
