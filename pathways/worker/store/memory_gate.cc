#include "pathways/worker/store/memory_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::worker {

// Several needs may name the same device.
bool MemoryGate::Fits(absl::Span<const Need> needs, int* device) const {
  for (const Need& need : needs) {
    int64_t sum = 0;
    for (const Need& other : needs) sum += other.device == need.device ? other.bytes : 0;
    if (ledger_->used(need.device) + sum <= ledger_->limit()) continue;
    *device = need.device;
    return false;
  }
  return true;
}

MemoryGate::Verdict MemoryGate::Admit(absl::Span<const Need> needs, const Hazards::TaskRef& task, absl::Status* why) {
  int device = 0;
  if (ledger_->limit() == 0 || Fits(needs, &device)) return Verdict::kRoom;
  int64_t sum = 0;
  for (const Need& need : needs) sum += need.device == device ? need.bytes : 0;
  if (sum <= ledger_->limit() && !last_chance_ && (waking_ > 0 || !Idle())) {
    Wait(task);
    return Verdict::kWait;
  }
  if (sum <= ledger_->limit() && spare_ != nullptr && spare_->MakeRoom(device, ledger_->used(device) + sum - ledger_->limit())) {
    Wait(task);
    return Verdict::kWait;
  }
  *why = absl::ResourceExhaustedError(absl::StrCat(
      "out of memory on local device ", device, ": ", HumanBytes(sum), " more are needed, ", HumanBytes(ledger_->used(device)),
      " of ", HumanBytes(ledger_->limit()), " are in use (", ledger_->Holders(device), "). Delete arrays or use more devices"));
  return Verdict::kNever;
}

// A command woken by its last chance stays first.
void MemoryGate::Wait(const Hazards::TaskRef& task) {
  hazards_->Hold(task);
  if (last_chance_)
    waiting_.push_front(task);
  else
    waiting_.push_back(task);
}

void MemoryGate::End() {
  --activity_;
  Poll();
}

void MemoryGate::Poll() {
  while (!waiting_.empty()) {
    if (!Idle() && ledger_->refunds() == seen_refunds_) return;
    seen_refunds_ = ledger_->refunds();
    WakeAll();
    if (waiting_.empty() || !Idle()) return;
    // All have checked, none fits, and nothing will change.
    Hazards::TaskRef first = std::move(waiting_.front());
    waiting_.pop_front();
    last_chance_ = true;
    hazards_->Release(first);
    last_chance_ = false;
  }
}

bool MemoryGate::Idle() const { return activity_ == 0 && !hazards_->about_to_run(); }

void MemoryGate::WakeAll() {
  std::deque<Hazards::TaskRef> now;
  now.swap(waiting_);
  waking_ = now.size();
  for (Hazards::TaskRef& task : now) {
    --waking_;
    hazards_->Release(task);
  }
}

}  // namespace pw::worker
