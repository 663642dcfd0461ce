// Processes: the other processes that a plugin's programs may span, and the key-value callbacks through which the plugin finds them.
//
// A plugin numbers a computation's processes when its client is made, before this process has joined a cluster. So each process numbers for
// itself: it is number 0, and another gets a free number when a program first names it. The plugin publishes its own address and looks up
// those of other numbers; this class answers both at once.
//
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::device::pjrt {

class Processes {
 public:
  // `others`: the number of other processes that the plugin was told of.
  explicit Processes(int others) : others_(others) {}

  // The address that the plugin has published; empty: none.
  std::string own_address() const;
  // Returns the number of a process; 0 for an empty address, which is this process. RESOURCE_EXHAUSTED when all numbers are taken.
  absl::StatusOr<int> NumberOf(const std::string& address);
  // Frees the number of a process that is gone, and returns it; -1 if no program has named the process.
  int Forget(const std::string& address);

  // Returns the value of a key that the plugin looks up: the address of the process whose number is the key's last part. UNAVAILABLE, as
  // device::BlamesProcess wants it, for a process that is gone.
  absl::StatusOr<std::string> Find(const std::string& key) const;

  // Sets the key-value callbacks, which use this object as long as the client lives.
  void Offer(PJRT_Client_Create_Args* args);

 private:
  static PJRT_Error* Get(PJRT_KeyValueGetCallback_Args* args);
  static PJRT_Error* TryGet(PJRT_KeyValueTryGetCallback_Args* args);
  static PJRT_Error* Put(PJRT_KeyValuePutCallback_Args* args);

  const int others_;
  mutable absl::Mutex mu_;
  std::string own_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);  // of number i + 1; empty: free
  std::vector<std::string> gone_ ABSL_GUARDED_BY(mu_);       // the first word of the last address of number i + 1
  absl::flat_hash_map<std::string, int> numbers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pw::device::pjrt
