// Processes: the other processes that a plugin's programs may span, and the plugin's key-value callbacks, through which it finds them.
//
// A plugin numbers the processes of a computation when its client is made, which is before this process has joined anything. So each
// process counts for itself: it is number 0, and others get a free number when a program first names them. The plugin publishes its own
// address and asks for that of a number; both are answered from here, at once.
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
  // `others`: how many other processes the plugin was told of.
  explicit Processes(int others) : others_(others) {}

  // What the plugin has published; empty: nothing.
  std::string own_address() const;
  // The number of a process; 0 for an empty address, which is this one. RESOURCE_EXHAUSTED when there are too many.
  absl::StatusOr<int> NumberOf(const std::string& address);
  // The process is gone: its number is free for another. -1: no program has named it.
  int Forget(const std::string& address);

  // Sets the key-value callbacks, which use this as long as the client lives.
  void Offer(PJRT_Client_Create_Args* args);

 private:
  static PJRT_Error* Get(PJRT_KeyValueGetCallback_Args* args);
  static PJRT_Error* TryGet(PJRT_KeyValueTryGetCallback_Args* args);
  static PJRT_Error* Put(PJRT_KeyValuePutCallback_Args* args);
  absl::StatusOr<std::string> Find(const std::string& key) const;

  const int others_;
  mutable absl::Mutex mu_;
  std::string own_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);  // of number i + 1; empty: free
  absl::flat_hash_map<std::string, int> numbers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pw::device::pjrt
