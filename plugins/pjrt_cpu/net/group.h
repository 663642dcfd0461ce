// Group: the devices of one collective, in this process and others.
//
// The devices of this process gather first; the last one to arrive performs the operation for all of them (operation.h).
//
// Invariants:
//   NG-1  when a launch is aborted, no device waits for it any more in any group, and devices that arrive later get the error
//   NG-2  the address of a lost process is looked up again: a new process under its number replaces it in later operations
//
// Any thread; each device runs one operation at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "plugins/pjrt_cpu/net/operation.h"
#include "plugins/pjrt_cpu/net/wire.h"

namespace pw::pjrt_cpu {

class Group {
 public:
  struct Member {
    int process = 0;
    int local = 0;  // the device's number in its process
  };
  // Returns the address of a process of the computation, as published by the host.
  using Resolve = std::function<absl::StatusOr<ProcessAddress>(int process)>;

  // `members` are ordered by rank.
  Group(std::shared_ptr<Wire> wire, int self, std::vector<Member> members, Resolve resolve);

  // Blocks until the operation is complete for this device.
  absl::Status Run(int rank, const OperationKey& key, Contribution contribution);
  // Ends all waits for a launch with this error.
  void Abort(int64_t run, const absl::Status& why);

 private:
  struct Meeting {
    OperationKey key;
    std::vector<Contribution> seats;  // by local rank
    size_t come = 0;
    bool done = false;
    absl::Status status;
    absl::CondVar ended;
  };

  absl::Status Perform(Meeting& meeting);
  absl::Status FindProcesses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(layout_mu_);

  const std::shared_ptr<Wire> wire_;
  const int self_;
  const std::vector<Member> members_;
  const Resolve resolve_;
  std::vector<int> local_ranks_;  // ascending
  std::vector<int> local_index_;  // index of each rank in local_ranks_; -1: elsewhere
  absl::Mutex layout_mu_;
  std::shared_ptr<const GroupLayout> layout_ ABSL_GUARDED_BY(layout_mu_);  // null: not looked up yet
  absl::Mutex mu_;
  std::vector<std::shared_ptr<Meeting>> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pw::pjrt_cpu
