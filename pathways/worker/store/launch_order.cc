#include "pathways/worker/store/launch_order.h"

#include <algorithm>
#include <utility>

#include "pathways/base/sorted_keys.h"
#include "pathways/worker/store/outbox.h"

namespace pw::worker {

void LaunchOrder::Enter(Turn* turn, uint64_t gang, SessionId session, const std::vector<int>* devices, Hazards::TaskRef task) {
  turn->task = std::move(task);
  turn->devices = devices;
  turn->session = session;
  if (gang == 0) return Queue(turn);
  ungranted_[gang].push_back(turn);
  Hold(turn);
}

void LaunchOrder::Queue(Turn* turn) {
  turn->queued = true;
  if (turn->when_granted) turn->when_granted();
  for (int device : *turn->devices) {
    std::deque<Turn*>& queue = queues_[device];
    turn->behind += queue.empty() ? 0 : 1;
    queue.push_back(turn);
  }
  if (turn->behind > 0)
    Hold(turn);
  else
    Unhold(turn);
}

void LaunchOrder::Hold(Turn* turn) {
  if (std::exchange(turn->held, true)) return;
  ++held_;
  hazards_->Hold(turn->task);
}

void LaunchOrder::Unhold(Turn* turn) {
  if (!std::exchange(turn->held, false)) return;
  --held_;
  const Hazards::TaskRef task = turn->task;  // the call may destroy the turn
  hazards_->Release(task);
}

void LaunchOrder::Leave(Turn* turn) {
  turn->task = nullptr;
  if (!std::exchange(turn->queued, false)) return;
  for (int device : *turn->devices) {
    std::deque<Turn*>& queue = queues_[device];
    queue.pop_front();  // it heads every queue, or it would be held
    if (queue.empty() || --queue.front()->behind > 0) continue;
    Unhold(queue.front());
  }
}

void LaunchOrder::Grant(const pathways::v1::Grant& command) {
  for (uint64_t gang : command.gangs()) {
    auto it = ungranted_.find(gang);
    if (it == ungranted_.end()) continue;  // refused meanwhile
    const std::vector<Turn*> turns = std::move(it->second);
    ungranted_.erase(it);
    for (Turn* turn : turns) Queue(turn);
  }
  for (const auto& refused : command.refused()) Refuse(refused.gang(), FromProto(refused.status()));
}

void LaunchOrder::Refuse(uint64_t gang, const absl::Status& status) {
  auto it = ungranted_.find(gang);
  if (it == ungranted_.end()) return;
  const std::vector<Turn*> turns = std::move(it->second);
  ungranted_.erase(it);
  for (Turn* turn : turns) {
    turn->refused = status;
    Unhold(turn);
  }
}

void LaunchOrder::ReleaseOwner(SessionId session) {
  const auto of_session = [session](const std::vector<Turn*>& turns) { return turns.front()->session == session; };
  for (uint64_t gang : SortedKeysWhere(ungranted_, of_session)) Refuse(gang, absl::CancelledError("the session has ended"));
}

double LaunchOrder::Charge(const std::vector<int>& devices, absl::Time launched, absl::Time ended) {
  double microseconds = 0;
  for (int device : devices) {
    microseconds += absl::ToDoubleMicroseconds(ended - std::max(launched, busy_until_[device]));
    busy_until_[device] = ended;
  }
  return Count(microseconds);
}

double LaunchOrder::Charge(const std::vector<int>& devices, const device::Interval& busy) {
  for (int device : devices) busy_until_[device] = std::max(busy_until_[device], busy.end);
  return Count(absl::ToDoubleMicroseconds(busy.end - busy.begin) * static_cast<double>(devices.size()));
}

double LaunchOrder::Count(double microseconds) {
  ++ended_;
  device_microseconds_ += microseconds;
  return microseconds;
}

}  // namespace pw::worker
