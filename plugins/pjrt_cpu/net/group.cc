#include "plugins/pjrt_cpu/net/group.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pw::pjrt_cpu {
namespace {

uint64_t Mix(uint64_t h, uint64_t value) {  // the same in every process, unlike absl's hash
  h ^= value + 0x9e3779b97f4a7c15 + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccd;
  return h ^ (h >> 33);
}

// Returns the places of the processes of each island, if there are several islands.
std::vector<std::vector<int>> FindIslands(const GroupLayout& layout) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> islands;
  for (size_t place = 0; place < layout.processes.size(); ++place) {
    const std::string& name = layout.processes[place].address.island;
    const size_t i = std::find(names.begin(), names.end(), name) - names.begin();
    if (i == names.size()) {
      names.push_back(name);
      islands.emplace_back();
    }
    islands[i].push_back(static_cast<int>(place));
  }
  if (islands.size() < 2) islands.clear();
  return islands;
}

}  // namespace

Group::Group(std::shared_ptr<Wire> wire, int self, std::vector<Member> members, Resolve resolve)
    : wire_(std::move(wire)), self_(self), members_(std::move(members)), resolve_(std::move(resolve)) {
  local_index_.assign(members_.size(), -1);
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].process != self_) continue;
    local_index_[rank] = static_cast<int>(local_ranks_.size());
    local_ranks_.push_back(static_cast<int>(rank));
  }
}

absl::Status Group::Run(int rank, const OperationKey& key, Contribution contribution) {
  std::shared_ptr<Meeting> meeting;
  {
    absl::MutexLock lock(&mu_);
    if (absl::Status aborted = wire_->Aborted(key.run); !aborted.ok()) return aborted;
    auto it = std::find_if(open_.begin(), open_.end(), [&](const auto& open) { return open->key == key; });
    if (it == open_.end()) {
      it = open_.insert(open_.end(), std::make_shared<Meeting>());
      (*it)->key = key;
      (*it)->seats.resize(local_ranks_.size());
    }
    meeting = *it;
    meeting->seats[local_index_[rank]] = std::move(contribution);
    if (++meeting->come < local_ranks_.size()) {
      while (!meeting->done) meeting->ended.Wait(&mu_);
      return meeting->status;
    }
    open_.erase(it);
  }
  absl::Status status = Perform(*meeting);
  absl::MutexLock lock(&mu_);
  meeting->status = status;
  meeting->done = true;
  meeting->ended.SignalAll();
  return status;
}

void Group::Abort(int64_t run, const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  for (const std::shared_ptr<Meeting>& meeting : open_) {
    if (meeting->key.run != run) continue;
    meeting->status = why;
    meeting->done = true;
    meeting->ended.SignalAll();
  }
  open_.erase(std::remove_if(open_.begin(), open_.end(), [](const auto& meeting) { return meeting->done; }), open_.end());
}

// Looks addresses up again when a process is lost: a new process may have its number.
absl::Status Group::FindProcesses() {
  for (const GroupLayout::Process& process : layout_ == nullptr ? std::vector<GroupLayout::Process>() : layout_->processes) {
    if (!wire_->Lost(process.address.uid).ok()) layout_ = nullptr;
    if (layout_ == nullptr) break;
  }
  if (layout_ != nullptr) return absl::OkStatus();
  auto layout = std::make_shared<GroupLayout>();
  std::vector<int> place_of;  // by the host's process number
  layout->ranks = members_.size();
  layout->local_ranks = local_ranks_;
  layout->local_index = local_index_;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (static_cast<int>(place_of.size()) <= member.process) place_of.resize(member.process + 1, -1);
    int& place = place_of[member.process];
    if (place < 0) {
      absl::StatusOr<ProcessAddress> address = wire_->self();
      if (member.process != self_) address = resolve_(member.process);
      if (!address.ok()) return address.status();
      place = static_cast<int>(layout->processes.size());
      if (member.process == self_) layout->mine = place;
      layout->processes.push_back({*std::move(address), {}});
    }
    GroupLayout::Process& process = layout->processes[place];
    process.ranks.push_back(static_cast<int>(rank));
    layout->name = Mix(Mix(layout->name, process.address.uid), static_cast<uint64_t>(member.local));
  }
  for (size_t place = 0; place < layout->processes.size(); ++place) {
    if (static_cast<int>(place) == layout->mine) continue;
    if (absl::Status status = wire_->Connect(layout->processes[place].address); !status.ok()) return status;
  }
  layout->islands = FindIslands(*layout);
  layout_ = std::move(layout);
  return absl::OkStatus();
}

absl::Status Group::Perform(Meeting& meeting) {
  std::shared_ptr<const GroupLayout> layout;
  {
    absl::MutexLock lock(&layout_mu_);
    if (absl::Status status = FindProcesses(); !status.ok()) return status;
    layout = layout_;
  }
  return PerformOperation(*wire_, *layout, meeting.key, meeting.seats);
}

}  // namespace pw::pjrt_cpu
