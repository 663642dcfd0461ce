// CompileCache: compiled programs on disk, shared by all workers that use the same folder and by all their clients.
//
// An entry is one file: a serialized program (LoadedProgram::Serialize) behind its SHA-256. The file's name is the SHA-256 of all
// compilation inputs, so that not even a hostile client can make two programs share an entry. An entry is written to a temporary
// file, which is then renamed, so a reader never sees a partial one. A damaged entry is deleted and counts as absent. When the
// folder exceeds its limit, or the disk is full, the least recently used entries are deleted.
//
// Invariants:
//   CC-1  an entry is used only for the same program, options, placement, machine and runtime version
//   CC-2  nothing is read from a folder in which other users may write: an entry is code that the worker runs
//   CC-3  a disk failure never fails a compilation: at worst the program is compiled again
// Safe for any thread and any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "pathways/device/device.h"

namespace pw::worker {

class CompileCache {
 public:
  // An empty folder name disables the cache. The first write creates the folder. `machine` describes what compiled code depends on besides
  // the runtime's version (compiled_for.h).
  CompileCache(std::string folder, int64_t limit_bytes, std::string machine = "")
      : folder_(std::move(folder)), limit_bytes_(limit_bytes), machine_(std::move(machine)) {}

  bool enabled() const { return !folder_.empty(); }
  // Returns the entry's name: a hash of the request, the runtime's version and the machine.
  std::string Key(const device::CompileRequest& request, const device::RuntimeInfo& runtime) const;
  // Returns the entry and marks it as recently used; nullopt if it is absent or damaged.
  std::optional<std::string> Read(const std::string& key) const;
  // Adds or replaces an entry, then deletes old ones if the folder is over its limit. If the disk is full, deletes a quarter of
  // all bytes, and at least twice the size of this entry, because other processes may take the freed space. Then tries again.
  void Write(const std::string& key, const std::string& value) const;
  void Remove(const std::string& key) const;

 private:
  std::string PathOf(const std::string& key) const;
  void MakeFolder() const;
  bool IsPrivate() const;
  // Writes an entry's file. Returns 0, or the error.
  int WriteEntry(const std::string& key, absl::string_view entry) const;
  // Deletes the least recently used entries until the rest fit `limit_bytes`. Returns the bytes of the rest.
  int64_t Trim(int64_t limit_bytes) const;

  const std::string folder_;
  const int64_t limit_bytes_;
  const std::string machine_;
};

}  // namespace pw::worker
