// ObjectSave: a save (array_save.h) into an object store that all hosts reach.
//
// Object stores rename nothing, so tiles are written to their final names. An array has no description (".zarray") until its save is committed, so
// no reader takes it for one. A save replaces no array: one that exists could not be replaced in one step.
//
// Objects below the location:
//   NAME/.pathways-save                  the claim: this save alone writes the array NAME, which did not exist
//   NAME/0.0, ...                        tiles
//   NAME/.zarray                         the description, written after the commit: the array is there
//   .pathways-save-ID/arrays/NAME        the save may have claimed NAME
//   .pathways-save-ID/hosts/HOST         the host has written tiles
//   .pathways-save-ID/commit             a SaveCommit (storage.proto): the save is committed, and its arrays get their descriptions
// Each object but `commit` has the save's ID as its mark. Claims and tiles are written only where nothing is (ObjectStore::PutNew), so of two saves of
// an array one fails, and what a lost process still sends never replaces a tile of a later save.
//
// A process may end at any moment. Before `commit` exists, the save has not happened. When it exists, Complete finishes the rest: each reader of the
// location calls it. All steps may be done twice and by several processes at once, so there is no lock, and no process waits for another.
//
// Invariants:
//   SO-1  an array with a description has all chunks, all of one save, and no later save changes them
//   SO-2  after Complete, either all arrays of a save have their descriptions or none has
//   SO-3  a save that is committed stays so: Drop completes it
// Immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pathways/storage/array_save.h"
#include "pathways/storage/object_store.h"

namespace pw::storage {

// A location in a store: all objects whose keys are below `prefix.key`.
struct ObjectLocation {
  std::shared_ptr<const ObjectStore> store;
  ObjectName prefix;

  ObjectName operator/(const std::string& more) const {
    return {prefix.bucket, prefix.key.empty() ? more : prefix.key + "/" + more};
  }
  std::string Display() const { return store->Display(prefix); }
};

class ObjectSave final : public ArraySave {
 public:
  ObjectSave(ObjectLocation location, std::string id);

  // ALREADY_EXISTS: the array exists, or another save writes it.
  absl::Status Begin(const NamedArray& array) const override;
  absl::Status WriteTile(const NamedArray& array, const buffers::Region& region, const Bytes& data) const override;
  absl::Status AddHost(HostId host) const override;
  absl::Status Commit(const std::vector<NamedArray>& arrays, const std::vector<Writer>& writers) const override;
  absl::StatusOr<Dropped> Drop() const override;
  // Finishes the committed saves of this location whose processes have ended.
  static absl::Status Complete(const ObjectLocation& location);

 private:
  using Keys = std::vector<std::string>;  // below a folder, without its name

  ObjectName Claim(const std::string& name) const { return location_ / (name + "/.pathways-save"); }
  ObjectName Own(const std::string& more) const { return location_ / (staging_ + "/" + more); }
  absl::StatusOr<Keys> ListOwn() const;
  absl::Status CheckChunks(const NamedArray& array) const;
  absl::Status CheckArrays(const std::vector<NamedArray>& arrays) const;
  absl::Status Finish(const Keys& own) const;
  absl::Status FinishArray(const std::string& name, const std::string& metadata) const;
  absl::Status RemoveArray(const std::string& name) const;

  const ObjectLocation location_;
  const std::string id_;
  const std::string staging_;
};

}  // namespace pw::storage
