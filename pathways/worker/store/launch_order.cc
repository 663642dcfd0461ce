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
  if (auto lease = leases_.find(gang); lease != leases_.end()) return EnterLease(turn, lease->second);
  ungranted_[gang].push_back(turn);
  Hold(turn);
}

void LaunchOrder::Queue(Turn* turn) {
  turn->queued = true;
  if (turn->when_granted) turn->when_granted();
  for (int device : *turn->devices) {
    std::deque<Entry>& queue = queues_[device];
    turn->behind += queue.empty() ? 0 : 1;
    queue.push_back({turn, nullptr});
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
  const LeaseRef lease = std::exchange(turn->lease, nullptr);
  if (lease != nullptr) std::erase(lease->untold, turn);
  for (int device : *turn->devices) {  // it heads every queue, or it would be held
    if (lease != nullptr)
      lease->inside.at(device).pop_front();
    else
      queues_[device].pop_front();
    NewHead(device);
  }
}

// Tells what heads the queue now that it does. Leases that are over leave.
void LaunchOrder::NewHead(int device) {
  std::deque<Entry>& queue = queues_[device];
  while (!queue.empty()) {
    Turn* head = queue.front().turn;
    if (const LeaseRef& lease = queue.front().lease; lease != nullptr) {
      const std::deque<Turn*>& inside = lease->inside.at(device);
      if (inside.empty() && lease->closed) {
        queue.pop_front();
        continue;
      }
      head = inside.empty() ? nullptr : inside.front();
    }
    if (head != nullptr && --head->behind == 0) Unhold(head);
    return;
  }
}

bool LaunchOrder::Heads(const LeaseRef& lease, int device) const {
  const std::deque<Entry>& queue = queues_[device];
  return !queue.empty() && queue.front().lease == lease;
}

void LaunchOrder::OpenLease(uint64_t gang, bool granted, SessionId session, const std::vector<int>& devices) {
  auto lease = std::make_shared<Lease>();
  lease->session = session;
  for (int device : devices) lease->inside[device];
  leases_[gang] = lease;
  if (granted) GrantLease(lease);
}

void LaunchOrder::CloseLease(uint64_t gang) {
  const auto it = leases_.find(gang);
  if (it == leases_.end()) return;
  const LeaseRef lease = it->second;
  lease->closed = true;
  if (lease->granted || lease->untold.empty()) leases_.erase(it);  // else it waits for its grant
  for (const auto& [device, inside] : lease->inside) {
    if (inside.empty() && Heads(lease, device)) NewHead(device);
  }
}

void LaunchOrder::EnterLease(Turn* turn, const LeaseRef& lease) {
  for (int device : *turn->devices) {
    if (lease->refused.ok() && !lease->inside.contains(device))
      turn->refused = absl::InternalError("a turn of a loop uses a device that its lease does not have");
  }
  turn->refused.Update(lease->refused);
  if (!turn->refused.ok()) return;
  turn->lease = lease;
  turn->queued = true;
  if (!lease->granted)
    lease->untold.push_back(turn);
  else if (turn->when_granted)
    turn->when_granted();
  for (int device : *turn->devices) {
    std::deque<Turn*>& inside = lease->inside.at(device);
    turn->behind += inside.empty() && Heads(lease, device) ? 0 : 1;
    inside.push_back(turn);
  }
  if (turn->behind > 0) Hold(turn);
}

void LaunchOrder::GrantLease(const LeaseRef& lease) {
  lease->granted = true;
  for (Turn* turn : std::exchange(lease->untold, {})) {
    if (turn->when_granted) turn->when_granted();
  }
  for (const auto& [device, inside] : lease->inside) {
    queues_[device].push_back({nullptr, lease});
    if (queues_[device].size() == 1) NewHead(device);
  }
}

void LaunchOrder::RefuseLease(const LeaseRef& lease, const absl::Status& status) {
  lease->refused = status;
  for (auto& [device, inside] : lease->inside) inside.clear();
  for (Turn* turn : std::exchange(lease->untold, {})) {
    turn->refused = status;
    turn->queued = false;
    turn->lease = nullptr;
    Unhold(turn);
  }
}

void LaunchOrder::Grant(const pathways::v1::Grant& command) {
  for (uint64_t gang : command.gangs()) {
    if (auto lease = leases_.find(gang); lease != leases_.end()) {
      const LeaseRef granted = lease->second;
      if (granted->closed) leases_.erase(lease);
      if (!granted->granted) GrantLease(granted);
      continue;
    }
    auto it = ungranted_.find(gang);
    if (it == ungranted_.end()) continue;  // refused meanwhile
    const std::vector<Turn*> turns = std::move(it->second);
    ungranted_.erase(it);
    for (Turn* turn : turns) Queue(turn);
  }
  for (const auto& refused : command.refused()) Refuse(refused.gang(), FromProto(refused.status()));
}

void LaunchOrder::Refuse(uint64_t gang, const absl::Status& status) {
  if (auto it = leases_.find(gang); it != leases_.end() && !it->second->granted) {
    const LeaseRef lease = it->second;
    if (lease->closed) leases_.erase(it);
    return RefuseLease(lease, status);
  }
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
  const auto lease_of_session = [session](const LeaseRef& lease) { return lease->session == session && !lease->granted; };
  for (uint64_t gang : SortedKeysWhere(leases_, lease_of_session)) Refuse(gang, absl::CancelledError("the session has ended"));
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
