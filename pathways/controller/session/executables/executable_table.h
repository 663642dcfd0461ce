// ExecutableTable: maps a session's executable handles to its records of them: computations and Python functions, which hosts have
// compiled or loaded. Programs of many nodes have a table of their own (SessionPrograms). Strand-confined.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/program/executable.h"
#include "pathways/session/host_function.h"

namespace pw::controller {

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that passed the check
  absl::Status gone;                                                // not OK after its slice was released: it cannot run any more
  std::shared_ptr<const CompileRequest> source;                     // to compile it again, for other hosts
  bool calls_back = false;                                          // it has host callbacks
  absl::Status unloaded = absl::OkStatus();                         // not OK while it is not on its hosts: the reason
  std::shared_ptr<const session::HostFunction> function = nullptr;  // of a Python function, without its text; else null
};

class ExecutableTable {
 public:
  using Info = std::shared_ptr<const ExecutableInfo>;

  // `context` must outlive this.
  explicit ExecutableTable(SessionContext* context) : context_(context) {}

  // Adds an executable under a new handle. Sets `info` and `accepted` of the entry, and returns the info.
  Info Add(ExecutableEntry entry);
  // Adds an executable that cannot run, for the reason `why`.
  Info AddUnusable(std::vector<DeviceId> devices, const absl::Status& why);
  // NOT_FOUND if the handle is unknown. Pointers to entries are valid until the next Add or Erase.
  absl::StatusOr<ExecutableEntry*> Find(Handle handle) {
    if (ExecutableEntry* entry = FindOrNull(handle)) return entry;
    return UnknownHandle("executable", handle);
  }
  ExecutableEntry* FindOrNull(Handle handle) {
    const auto it = entries_.find(handle);
    return it == entries_.end() ? nullptr : &it->second;
  }
  // Forgets the handle. The executable stays on its hosts until DropFromHosts.
  void Erase(Handle handle) { entries_.erase(handle); }
  std::vector<Handle> Handles() const;  // ascending
  size_t size() const { return entries_.size(); }
  // Makes all executables for these devices fail with `error` from now on.
  void OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error);

  // Makes the hosts drop an executable, which may be in no entry any more.
  void DropFromHosts(const program::Executable& record);

 private:
  SessionContext* const context_;
  absl::flat_hash_map<Handle, ExecutableEntry> entries_;
};

}  // namespace pw::controller
