// ArrayFiles: this host's part of saving arrays to files or to an object store, and of loading them (worker.proto, StoredArray).
//
// Both are read and written on the threads of an executor of its own, because they may be slow. Copies of tiles in host memory are limited:
// further tiles wait until others are written, or have reached their devices. Users take turns then.
//
// Invariants:
//   AF-1  each command is answered by one Done, when nothing more is read or written for it
//   AF-2  copies of tiles in host memory exceed the limit by no more than one tile
//   AF-3  a save reads its arrays as they are when its command arrives; later commands do not change what it saves
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/storage/place.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/host_quota.h"

namespace pw::worker {

class ArrayFiles {
 public:
  // `places`: where clients may save. `disk` runs reads and writes of files, and outlives this; null: all commands fail.
  ArrayFiles(WorkerContext* context, DeviceArrays* arrays, storage::Places places, Executor* disk, int64_t limit_bytes,
             HostQuota* quota)
      : context_(context), arrays_(arrays), places_(std::move(places)), disk_(disk), limit_bytes_(limit_bytes), quota_(quota) {}

  // REQUIRES: a SaveTiles, CommitSave, DropSave or LoadTiles.
  void Handle(const pathways::v1::Command& command);

 private:
  struct Saving;
  struct Loading;
  using SavingRef = std::shared_ptr<Saving>;
  using LoadingRef = std::shared_ptr<Loading>;
  struct SavedTile {
    ShardRef shard;
    buffers::Region region;
  };
  struct LoadedTile {
    buffers::Region region;
    std::vector<std::pair<ShardRef, std::string>> shards;  // with their memory kinds
  };
  struct Waiter {
    int64_t bytes;
    absl::AnyInvocable<void() &&> later;
  };

  // Runs `work` on the disk's threads, then `then` with its result on the strand, unless this worker is gone by then.
  template <class T>
  void OnDisk(absl::AnyInvocable<T() &&> work, absl::AnyInvocable<void(T) &&> then);
  absl::StatusOr<std::shared_ptr<const storage::Place>> Resolve(const std::string& location, const std::string& user) const;
  bool HasRoom(int64_t bytes) const { return in_memory_ == 0 || bytes <= limit_bytes_ - in_memory_; }
  // Takes memory for a copy of a tile. False: `later` runs when there may be room.
  bool TakeMemory(SessionId session, int64_t bytes, absl::AnyInvocable<void() &&> later);
  void FreeMemory(SessionId session, int64_t bytes);

  void Save(const pathways::v1::SaveTiles& command);
  absl::StatusOr<SavingRef> ParseSave(const pathways::v1::SaveTiles& command) const;
  void SubmitTile(const SavingRef& saving, SavedTile tile);
  Hazards::Outcome StartTile(const SavingRef& saving, const SavedTile& tile, const Hazards::TaskRef& task,
                             const absl::Status& input);
  void WriteTile(const SavingRef& saving, const SavedTile& tile, int64_t bytes, Bytes data);
  void OnTileWritten(const SavingRef& saving, const absl::Status& status);

  void Commit(const pathways::v1::CommitSave& command);
  void Drop(const pathways::v1::DropSave& command);

  void Load(const pathways::v1::LoadTiles& command);
  absl::StatusOr<LoadingRef> ParseLoad(const pathways::v1::LoadTiles& command) const;
  void StartLoad(const LoadingRef& loading);
  void ReadTile(const LoadingRef& loading, LoadedTile tile);
  void PlaceTile(const LoadingRef& loading, LoadedTile tile, absl::StatusOr<Bytes> data);
  void OnShardSettled(const LoadingRef& loading, const absl::Status& status);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  const storage::Places places_;
  Executor* const disk_;
  const int64_t limit_bytes_;
  HostQuota* const quota_;
  int64_t in_memory_ = 0;
  std::map<std::string, std::deque<Waiter>> waiting_;  // for in_memory_ to shrink; by owner (accounts.h), none empty
  std::string last_turn_;                              // of this owner
};

}  // namespace pw::worker
