// Network: a multi-process client's wire, and the addresses of the other processes.
//
// Addresses travel through the host's key-value callbacks, in one of two ways (Options::key_value_world):
//   - Each client publishes its own address under "pathways-cpu/process/N", where N is its node_id. It looks up another client's
//     address when a collective first needs it. So clients need not start together, and need not all be running.
//   - Each client publishes its address and its number of devices under "pathways-cpu/world/N", and is made when it has read those of
//     all nodes. It asks for nothing later. So do plugins for accelerators; it needs a store that has all keys and waits for them.
//
// Invariants:
//   NW-1  in a key-value world, errors name a process that is gone by its node_id, and otherwise by its address's uid
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "plugins/pjrt_cpu/net/wire.h"
#include "plugins/pjrt_cpu/options.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

class Network {
 public:
  // Publishes this process's address; in a key-value world, waits for the others'. Uses the callbacks in `args` for its whole life.
  static absl::StatusOr<std::shared_ptr<Network>> Join(const Options& options, const PJRT_Client_Create_Args& args);

  const std::shared_ptr<Wire>& wire() const { return wire_; }
  int node_id() const { return node_id_; }
  // Returns the number of devices of each node. Empty: not known, because this is no key-value world.
  const std::vector<int>& devices_of_nodes() const { return devices_of_nodes_; }
  // Looks an address up. Blocks as long as the host's callback does. Any thread.
  absl::StatusOr<ProcessAddress> AddressOf(int process);
  // Records the host's report that a process is gone.
  void Lose(int process, const std::string& why);

 private:
  Network(int node_id, std::shared_ptr<Wire> wire, const PJRT_Client_Create_Args& args)
      : node_id_(node_id), wire_(std::move(wire)), get_(args.kv_get_callback), get_arg_(args.kv_get_user_arg) {}
  // Reads what the other nodes have published.
  absl::Status FormWorld(const Options& options);
  absl::StatusOr<std::string> Get(absl::string_view key, int timeout_ms) const;

  const int node_id_;
  const std::shared_ptr<Wire> wire_;
  const PJRT_KeyValueGetCallback get_;
  void* const get_arg_;
  std::vector<int> devices_of_nodes_;  // constant once joined, like the next
  std::vector<ProcessAddress> world_;  // by node; empty unless it is a key-value world
  absl::Mutex mu_;
  absl::flat_hash_map<int, uint64_t> uid_of_ ABSL_GUARDED_BY(mu_);  // as last looked up
};

// The bit that marks the numbers of launches over several processes, which are equal in all of them. Other launches belong to
// this client alone.
inline constexpr int kSpanningLaunch = 1 << 30;

}  // namespace pw::pjrt_cpu
