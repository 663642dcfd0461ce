// StagedSave: a save (array_save.h) into one folder that the hosts share. Each process writes its tiles to a staging folder beside
// the arrays. When all have, one commits. Readers find each array as it was before or is after.
//
// On the disk, below the location:
//   .pathways-save-ID/arrays/NAME/   the array NAME as it will be (zarr.h)
//   .pathways-save-ID/hosts/HOST     the host has written tiles
//   .pathways-save-ID/commit         a SaveCommit (storage.proto): the save is committed, and its arrays move to their places
//   .pathways-save.lock              locked by the process that commits, completes or drops a save, and removed by it
//
// A process may end at any moment, also by kill -9. Before `commit` exists, the save has not happened. When it exists, Complete
// finishes the rest: each commit and each reader of the location calls it. An array that replaces another one changes places with
// it in one step (RENAME_EXCHANGE). On a file system without that, the old one is moved aside first: if the process ends in
// between, the array is missing until Complete has run.
//
// Invariants:
//   SF-1  at every moment, the folder of an array has all chunks and the metadata of one save, or does not exist
//   SF-2  after Complete, either all arrays of a save are in their places or none is
//   SF-3  a save that is committed stays so: Drop completes it
//   SF-4  at most one save of a location is committed and incomplete. So of two saves of the same arrays, the later stays whole
// Immutable; all methods block, and may be called in any process of any host at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/storage/array_save.h"
#include "pathways/storage/files.h"

namespace pw::storage {

// For tests of saves.
struct SaveForTests {
  std::function<void()> before_step;  // runs before each change on the disk
  bool can_exchange = true;           // false: as on a file system that cannot exchange two folders
};

class StagedSave final : public ArraySave {
 public:
  using ForTests = SaveForTests;
  // `id` names the save: letters and digits.
  StagedSave(Folder location, std::string id, ForTests for_tests = {});

  absl::Status Begin(const NamedArray&) const override { return absl::OkStatus(); }
  absl::Status WriteTile(const NamedArray& array, const buffers::Region& region, const Bytes& data) const override;
  absl::Status AddHost(HostId host) const override;
  // Makes the arrays replace those of the same names.
  absl::Status Commit(const std::vector<NamedArray>& arrays, const std::vector<Writer>& writers) const override;
  // Removes the staging folder, or completes the save if it is committed.
  absl::StatusOr<Dropped> Drop() const override;
  // Finishes the committed saves of this location whose processes have ended.
  static absl::Status Complete(const Folder& location, const ForTests& for_tests = {});

 private:
  struct Lock;

  static absl::StatusOr<Lock> TakeLock(const Folder& location, bool make);
  static absl::StatusOr<std::vector<StagedSave>> AllIn(const Folder& location, const ForTests& for_tests);
  static absl::Status CompleteLocked(const Folder& location, const ForTests& for_tests);
  void Step() const;
  absl::Status CheckId() const { return CheckSaveId(id_); }
  Folder ArrayFolder(const std::string& name) const { return staging_ / "arrays" / name; }
  absl::Status CheckWriters(const std::vector<Writer>& writers) const;
  absl::Status WriteCommit(const std::vector<NamedArray>& arrays) const;
  absl::Status MoveArrays() const;
  absl::Status MoveArray(const std::string& name, uint64_t inode) const;
  absl::Status Exchange(const Folder& staged, const Folder& old) const;
  absl::Status RemoveAbandoned() const;
  absl::Status Remove() const;
  absl::StatusOr<bool> IsCommitted() const;

  Folder location_;
  std::string id_;
  Folder staging_;
  ForTests for_tests_;
};

}  // namespace pw::storage
