// Processes: the processes that a plugin's programs may span: how the plugin numbers them, and the store through which it finds them.
//
// There are two kinds. In a fixed world all processes are there from the start, and every one has the same number everywhere
// (device/world.h): that is how plugins for accelerators work. With named processes, which our CPU plugin supports, each process
// numbers for itself: it is number 0, and another gets a free number when a program first names it. So processes need not start
// together, and a new one may replace one that is gone.
//
// Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "pathways/device/world.h"

namespace pw::device::pjrt {

class Processes {
 public:
  virtual ~Processes() = default;

  // The number of this process, and how many there are at most, for the plugin. 1: programs span no other process.
  virtual int node() const = 0;
  virtual int nodes() const = 0;
  // Returns whether the plugin knows how many devices each other process has. Else it assumes a number, and ids without gaps.
  virtual bool devices_are_known() const = 0;
  // The store that the plugin uses, as long as this lives.
  virtual KeyValues* store() = 0;
  // The address by which other processes' programs name this one (RuntimeInfo::process_address); empty: none. Constant once the
  // plugin's client is made.
  virtual std::string own_address() const = 0;

  // Returns the number of each process that a program names; an empty address is this process. An error if one cannot take part.
  virtual absl::StatusOr<std::vector<int>> NumbersOf(absl::Span<const std::string> addresses) = 0;
  // Records that a process is gone, and returns its number; -1 if the plugin does not know it.
  virtual int Forget(const std::string& address) = 0;
  // Returns whether each number's process is gone, for plugins that want to know this of all processes at once. Empty: the plugin is
  // told of the process that is gone, alone.
  virtual std::vector<bool> Gone() const { return {}; }
};

// Processes that programs name by addresses. The plugin publishes its own address in the store under one key, and looks up those of
// other numbers under the keys of these numbers: kProcessKey and the number. The store has no other keys.
class NamedProcesses final : public Processes, private KeyValues {
 public:
  static constexpr absl::string_view kProcessKey = "pathways-cpu/process/";

  // `others`: the number of other processes that programs may span.
  explicit NamedProcesses(int others) : others_(others) {}

  int node() const override { return 0; }
  int nodes() const override { return others_ + 1; }
  bool devices_are_known() const override { return false; }
  KeyValues* store() override { return this; }
  std::string own_address() const override;
  // Gives numbers to addresses that have none. RESOURCE_EXHAUSTED when all numbers are taken.
  absl::StatusOr<std::vector<int>> NumbersOf(absl::Span<const std::string> addresses) override;
  int Forget(const std::string& address) override;

 private:
  absl::Status Put(absl::string_view key, absl::string_view value) override;
  // Both answer at once. UNAVAILABLE, as device::BlamesProcess wants it, for a process that is gone.
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override { return TryGet(key); }
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;
  absl::StatusOr<int> NumberOf(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int others_;
  mutable absl::Mutex mu_;
  std::string own_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);  // of number i + 1; empty: free
  std::vector<std::string> gone_ ABSL_GUARDED_BY(mu_);       // the first word of the last address of number i + 1
  absl::flat_hash_map<std::string, int> numbers_ ABSL_GUARDED_BY(mu_);
};

// The processes of a fixed world. An address is "NODE of world NAME".
class WorldProcesses final : public Processes {
 public:
  explicit WorldProcesses(World world) : world_(std::move(world)), gone_(world_.nodes, false) {}

  int node() const override { return world_.node; }
  int nodes() const override { return world_.nodes; }
  bool devices_are_known() const override { return true; }
  KeyValues* store() override { return world_.store.get(); }
  std::string own_address() const override;
  // FAILED_PRECONDITION: a process is in another world. An address that names no world stands for a host that is lost: such a
  // program is compiled, and never runs. It gets the number of a process that the program does not name.
  absl::StatusOr<std::vector<int>> NumbersOf(absl::Span<const std::string> addresses) override;
  int Forget(const std::string& address) override;
  std::vector<bool> Gone() const override;

 private:
  // Returns -1 if the address names no world.
  absl::StatusOr<int> NumberIn(const std::string& address) const;

  const World world_;
  mutable absl::Mutex mu_;
  std::vector<bool> gone_ ABSL_GUARDED_BY(mu_);
};

}  // namespace pw::device::pjrt
