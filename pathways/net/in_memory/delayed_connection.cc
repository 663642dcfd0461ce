#include "pathways/net/in_memory/delayed_connection.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace pw::net {

absl::Duration Uplink::Take(size_t bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  const absl::Time now = clock_->Now();
  free_ = std::max(free_, now);
  if (bytes_per_second_ > 0) free_ += absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
  return free_ - now + latency_;
}

// The lock is held while a frame is passed to `inner`, which never blocks, so that frames of two threads keep their order.
struct DelayedConnection::State {
  struct Frame {
    std::string header;
    std::vector<Bytes> payload;
    Lane lane;
  };
  mutable std::mutex mu;
  std::unique_ptr<Connection> inner;  // guarded by mu; null once the DelayedConnection is destroyed
  std::deque<Frame> on_the_way;       // guarded by mu

  // Called when one frame's delay has passed. Sends the first queued frame, whichever frame the timer was for.
  void Arrive() {
    std::lock_guard<std::mutex> lock(mu);
    if (inner == nullptr || on_the_way.empty()) return;
    Frame frame = std::move(on_the_way.front());
    on_the_way.pop_front();
    inner->Send(std::move(frame.header), std::move(frame.payload), frame.lane);
  }
};

DelayedConnection::DelayedConnection(std::unique_ptr<Connection> inner, std::shared_ptr<Uplink> uplink, Timers* timers,
                                     Executor* executor)
    : peer_(inner->peer()),
      proof_(inner->proof()),
      uplink_(std::move(uplink)),
      timers_(timers),
      executor_(executor),
      state_(std::make_shared<State>()) {
  state_->inner = std::move(inner);
}

DelayedConnection::~DelayedConnection() {
  std::unique_ptr<Connection> inner;  // destroyed after the lock is released: it may wait for a handler
  std::lock_guard<std::mutex> lock(state_->mu);
  inner = std::move(state_->inner);
}

void DelayedConnection::Start(Handler* handler) { state_->inner->Start(handler); }

void DelayedConnection::Send(std::string header, std::vector<Bytes> payload, Lane lane) {
  size_t bytes = header.size();
  for (const Bytes& piece : payload) bytes += piece.size();
  std::lock_guard<std::mutex> lock(state_->mu);
  const absl::Duration delay = uplink_->Take(bytes);
  state_->on_the_way.push_back({std::move(header), std::move(payload), lane});
  timers_->After(delay, executor_, [state = state_] { state->Arrive(); });
}

bool DelayedConnection::CanSendBulk() const { return state_->inner->CanSendBulk(); }

void DelayedConnection::Close(absl::Status reason) { state_->inner->Close(std::move(reason)); }

Counters DelayedConnection::counters() const { return state_->inner->counters(); }

}  // namespace pw::net
