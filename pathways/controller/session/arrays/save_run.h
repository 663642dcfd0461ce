// SaveRun: one save of a session's arrays (session.proto, SaveArrays). The hosts write their tiles to a staging folder; when all
// tiles are written, one host commits. The callbacks of its commands keep it alive, even after its session has ended.
// Strand-confined.
//
// Invariants:
//   SA-1  a commit is sent only if the session is still open, every host has reported that its tiles are written, and all arrays
//         and their effects are ready
//   SA-2  a save that is not committed is dropped on the hosts that wrote for it, before `done` runs
//   SA-3  if the host that commits is lost, the disk tells whether the save was committed: other hosts look, and complete it if so. If
//         nothing is left of the save, it was completed
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/names/request_names.h"
#include "pathways/controller/session.h"

namespace pw::controller {

class SaveRun : public std::enable_shared_from_this<SaveRun> {
 public:
  struct Array {
    std::string name;
    buffers::LogicalArray::Ref record;
    buffers::LogicalArray::Ref effects;  // may be null
    std::shared_ptr<const buffers::ArraySpec> spec;
  };
  // Returns the names that a save of this number of arrays needs. A host writes each array with one command, and commits and drops with one each.
  static NameNeed Need(size_t arrays) { return {1, arrays + 2}; }
  // `open` expires with the session, which is `user`'s. `done` runs once, maybe inside Start.
  SaveRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> open, std::string user, std::string location,
          session::StatusCallback done);

  // Sends the commands to write. Called once. REQUIRES: the arrays are not strings, and their devices are present.
  void Start(std::vector<Array> arrays);

 private:
  // Awaits the outcome of a command to a host, which `then` gets. Returns its op.
  OpId Await(HostId host, OpId op, void (SaveRun::*then)(const absl::Status&));
  void OnWritten(const absl::Status& status);
  void Commit();
  void OnCommitted(const absl::Status& status);
  void Drop();
  void OnDropped(const absl::Status& status);
  void Finish();
  std::vector<HostId> PresentWriters() const;
  std::string HostName(HostId host) const;

  Fabric* const fabric_;
  const SessionId session_;
  NameScope names_;
  const OpId commit_op_, drop_op_;  // two names: one host may get both commands
  const std::weak_ptr<bool> open_;
  const std::string user_;
  const std::string location_;
  const std::string name_;  // of the save
  session::StatusCallback done_;
  std::vector<Array> arrays_;
  std::vector<::pathways::v1::StoredArray> stored_;
  std::vector<::pathways::v1::CommitSave::Writer> writers_;
  std::set<HostId> hosts_;           // of all arrays
  size_t missing_ = 0;               // outcomes that have not come
  std::optional<HostId> committer_;  // once it has its command
  bool lost_committer_ = false;
  // The findings of hosts that dropped the save.
  bool removed_ = false;    // files that were not committed
  bool completed_ = false;  // a commit
  bool unclear_ = false;    // they could not tell
  absl::Status error_;
};

}  // namespace pw::controller
