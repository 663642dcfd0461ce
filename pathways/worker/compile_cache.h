// The compile cache: compiled programs on disk, shared by all clients of all workers that use the folder.
//
// An entry is one file, named by the hash of what it was compiled from, whose first bytes are a checksum of the rest. Entries are
// written beside and renamed, so readers see whole ones. A damaged entry is deleted and counts as absent. When the folder grows
// beyond its limit, the entries that were used longest ago go.
//
// Invariants:
//   CC-1  an entry is only ever used with the same program, options, placement, machine and runtime version
//   CC-2  no failure of the disk fails a compilation: at worst it compiles again
// Any thread, any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pathways/device/device.h"

namespace pw::worker {

class CompileCache {
 public:
  // An empty folder name switches the cache off. The folder is made when the first entry is written. `machine` says what compiled
  // code depends on beyond the runtime's version: the kind of device, the instructions of the CPU.
  CompileCache(std::string folder, int64_t limit_bytes, std::string machine = "")
      : folder_(std::move(folder)), limit_bytes_(limit_bytes), machine_(std::move(machine)) {}

  bool enabled() const { return !folder_.empty(); }
  std::string Key(const device::CompileRequest& request, const device::RuntimeInfo& runtime) const;
  std::optional<std::string> Read(const std::string& key) const;
  void Write(const std::string& key, const std::string& value) const;
  void Remove(const std::string& key) const;

 private:
  std::string PathOf(const std::string& key) const;
  void Trim() const;

  const std::string folder_;
  const int64_t limit_bytes_;
  const std::string machine_;
};

}  // namespace pw::worker
