#include "pathways/worker/store/memory_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::worker {

bool MemoryGate::Limits(SessionId session) const {
  if (ledger_->limit() != 0) return true;
  const Account* account = accounts_->Of(session);
  return account != nullptr && account->device_bytes.has_value();
}

// Several needs may name the same device. A user's quota comes first: nothing is moved out for a user who has used it up.
std::optional<MemoryGate::Shortage> MemoryGate::FindShortage(const Asked& asked) const {
  const Account* account = accounts_->Of(asked.session);
  for (const Need& need : asked.needs) {
    int64_t needed = 0, charged = 0;
    for (const Need& other : asked.needs) {
      if (other.device != need.device) continue;
      needed += other.bytes;
      charged += other.bytes - other.moved_back;
    }
    if (account != nullptr && account->device_bytes.has_value() && charged > 0) {
      const int64_t held = ledger_->HeldBy(need.device, account->sessions);
      if (charged > *account->device_bytes - held) return Shortage{need.device, charged, held, *account->device_bytes, account};
    }
    const int64_t used = ledger_->used(need.device);
    if (ledger_->limit() != 0 && used + needed > ledger_->limit())
      return Shortage{need.device, needed, used, ledger_->limit(), nullptr};
  }
  return std::nullopt;
}

MemoryGate::Verdict MemoryGate::Admit(const Asked& asked, const Hazards::TaskRef& task, absl::Status* why) {
  if (!Limits(asked.session)) return Verdict::kRoom;
  const std::optional<Shortage> shortage = FindShortage(asked);
  if (!shortage.has_value()) return Verdict::kRoom;
  if (shortage->needed <= shortage->limit) {
    const bool makes_room = MayEnd(*shortage, asked.keeps_others) ||
                            (shortage->account == nullptr && spare_ != nullptr &&
                             spare_->MakeRoom(shortage->device, shortage->used + shortage->needed - shortage->limit));
    if (makes_room) {
      Wait(asked, *shortage, task);
      return Verdict::kWait;
    }
  }
  *why = absl::ResourceExhaustedError(Text(*shortage));
  return Verdict::kNever;
}

bool MemoryGate::HasWork(const Account& account, int device) const {
  return std::any_of(account.sessions.begin(), account.sessions.end(),
                     [&](SessionId session) { return work_.contains({session, device}); });
}

// Returns whether one more command of the user may wait for the quota.
bool MemoryGate::MayWait(const Shortage& shortage) const {
  Awaited sum{1, shortage.needed};
  for (SessionId session : shortage.account->sessions) {
    const auto found = awaited_.find({session, shortage.device});
    if (found == awaited_.end()) continue;
    sum.commands += found->second.commands;
    sum.bytes += found->second.bytes;
  }
  return sum.commands <= kMostAwaited && sum.bytes <= shortage.limit;
}

// Returns whether anything under way may end the shortage.
bool MemoryGate::MayEnd(const Shortage& shortage, bool keeps_others) const {
  if (last_chance_) return false;
  if (shortage.account == nullptr) return waking_ > 0 || !Idle();
  if (!keeps_others) return MayWait(shortage) && (waking_ > 0 || !Idle());
  return hazards_->about_to_run() || HasWork(*shortage.account, shortage.device);
}

std::string MemoryGate::Text(const Shortage& shortage) const {
  const std::string needed = HumanBytes(shortage.needed), used = HumanBytes(shortage.used), limit = HumanBytes(shortage.limit);
  if (shortage.account == nullptr) {
    return absl::StrCat("out of memory on local device ", shortage.device, ": ", needed, " more are needed, ", used, " of ", limit,
                        " are in use (", ledger_->Holders(shortage.device), "). Delete arrays or use more devices");
  }
  return absl::StrCat("user '", shortage.account->user, "' has used up the memory quota on local device ", shortage.device, " of ",
                      context_->NameOf(context_->self()), ": ", needed, " more are needed, ", used, " of ", limit,
                      " are in use (", ledger_->HoldersAmong(shortage.device, shortage.account->sessions),
                      "). Delete arrays, use more devices, or ask an operator for more ('pathways quota set --device-memory')");
}

// A command woken by its last chance stays first.
void MemoryGate::Wait(const Asked& asked, const Shortage& shortage, const Hazards::TaskRef& task) {
  hazards_->Hold(task);
  Waiting waiting{task, asked.session, std::nullopt};
  if (shortage.account != nullptr) {
    waiting.over_quota = Need{shortage.device, shortage.needed};
    Awaited& awaited = awaited_[{asked.session, shortage.device}];
    ++awaited.commands;
    awaited.bytes += shortage.needed;
    // It waits for commands that are about to run, which may do nothing that wakes it.
    if (asked.keeps_others && !HasWork(*shortage.account, shortage.device)) recheck_ = true;
  }
  if (last_chance_)
    waiting_.push_front(std::move(waiting));
  else
    waiting_.push_back(std::move(waiting));
}

std::vector<MemoryGate::QuotaWait> MemoryGate::quota_waits() const {
  constexpr size_t kShown = 16;
  std::vector<QuotaWait> waits;
  for (const Waiting& one : waiting_) {
    const Account* account = accounts_->Of(one.session);
    if (!one.over_quota.has_value() || account == nullptr || !account->device_bytes.has_value()) continue;
    const int device = one.over_quota->device;
    const int64_t held = ledger_->HeldBy(device, account->sessions);
    waits.push_back({one.session, account->user, Text({device, one.over_quota->bytes, held, *account->device_bytes, account})});
    if (waits.size() == kShown) break;
  }
  return waits;
}

void MemoryGate::End() {
  --activity_;
  Poll();
}

MemoryGate::Devices MemoryGate::BeginWork(SessionId session, absl::Span<const int> devices) {
  if (accounts_->Of(session) == nullptr) return {};
  for (int device : devices) ++work_[{session, device}];
  return Devices(devices.begin(), devices.end());
}

void MemoryGate::EndWork(SessionId session, const Devices& devices) {
  for (int device : devices) {
    const auto work = work_.find({session, device});
    if (--work->second > 0) continue;
    work_.erase(work);
    recheck_ = true;
  }
}

void MemoryGate::Poll() {
  while (!waiting_.empty()) {
    if (!Idle() && !recheck_ && ledger_->refunds() == seen_refunds_) return;
    recheck_ = false;
    seen_refunds_ = ledger_->refunds();
    WakeAll();
    if (waiting_.empty() || !Idle()) return;
    // All have checked, none fits, and nothing will change.
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    if (first.over_quota.has_value()) {
      Awaited& awaited = awaited_.at({first.session, first.over_quota->device});
      --awaited.commands;
      awaited.bytes -= first.over_quota->bytes;
    }
    last_chance_ = true;
    hazards_->Release(first.task);
    last_chance_ = false;
  }
}

bool MemoryGate::Idle() const { return activity_ == 0 && !hazards_->about_to_run(); }

void MemoryGate::WakeAll() {
  std::deque<Waiting> now;
  now.swap(waiting_);
  awaited_.clear();
  waking_ = now.size();
  for (Waiting& waiting : now) {
    --waking_;
    hazards_->Release(waiting.task);
  }
}

}  // namespace pw::worker
