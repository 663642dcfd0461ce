#include "pathways/worker/files/array_files.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/dtype.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/storage/zarr.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

absl::Status SessionEnded() { return absl::CancelledError("the client has gone"); }

// Adds the name of this host to an error of its files.
absl::Status OnHost(const std::string& host, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(host, ": ", status.message()));
}

absl::StatusOr<storage::NamedArray> ArrayFrom(const v1::StoredArray& stored) {
  storage::NamedArray named;
  named.name = stored.name();
  PW_ASSIGN_OR_RETURN(named.array.dtype, buffers::DTypeFromNumber(stored.dtype()));
  named.array.dims.assign(stored.dims().begin(), stored.dims().end());
  named.array.chunks.assign(stored.chunks().begin(), stored.chunks().end());
  PW_RETURN_IF_ERROR(storage::ZarrMetadata(named.array).status());
  PW_RETURN_IF_ERROR(buffers::DenseBytes(named.array.dtype, named.array.dims).status());
  return named;
}

// Like ArrayFrom, for an array that is saved.
absl::StatusOr<storage::NamedArray> SavedFrom(const v1::StoredArray& stored) {
  PW_ASSIGN_OR_RETURN(storage::NamedArray named, ArrayFrom(stored));
  const buffers::Dims& chunks = named.array.chunks;
  if (chunks.size() == named.array.dims.size() &&
      std::all_of(chunks.begin(), chunks.end(), [](int64_t size) { return size > 0; }))
    return named;
  return absl::InvalidArgumentError("a save has tiles that do not fit the array");
}

// Returns the region of the chunk that begins at `start`.
absl::StatusOr<buffers::Region> RegionOfChunk(const storage::ZarrArray& array, absl::Span<const int64_t> start) {
  const size_t rank = array.dims.size();
  bool fits = start.size() == rank;
  buffers::Region region{{start.begin(), start.end()}, array.chunks};
  for (size_t d = 0; fits && d < rank; ++d) {
    fits = start[d] >= 0 && start[d] < array.dims[d] && start[d] % array.chunks[d] == 0;
    if (fits) region.size[d] = std::min(array.chunks[d], array.dims[d] - start[d]);
  }
  if (fits) return region;
  return absl::InvalidArgumentError("a save names a tile that does not fit its array");
}

// The outcome of a DropSave (worker.proto).
absl::Status StatusOf(storage::ArraySave::Dropped dropped) {
  switch (dropped) {
    case storage::ArraySave::Dropped::kRemoved:
      return absl::OkStatus();
    case storage::ArraySave::Dropped::kCompleted:
      return absl::AlreadyExistsError("the save was committed");
    case storage::ArraySave::Dropped::kAbsent:
      return absl::NotFoundError("nothing of the save is on the disk");
    case storage::ArraySave::Dropped::kRemains:
      return absl::UnknownError("only remains of the save were on the disk");
  }
  return absl::InternalError("no such outcome");
}

}  // namespace

struct ArrayFiles::Saving {
  uint64_t op = 0;
  SessionId session;
  std::string host;
  std::shared_ptr<const storage::ArraySave> save;
  std::once_flag begun;  // on the disk's threads, as the next
  absl::Status beginning;
  storage::NamedArray array;
  std::vector<SavedTile> tiles;  // until they are submitted
  size_t unwritten = 0;
  absl::Status status;
};

struct ArrayFiles::Loading {
  uint64_t op = 0;
  SessionId session;
  std::string host;
  std::shared_ptr<const storage::Place> place;
  storage::NamedArray array;      // with the chunks of the files, once they have been opened
  std::vector<LoadedTile> tiles;  // until they are read
  size_t unsettled = 0;
  absl::Status status;
};

template <class T>
void ArrayFiles::OnDisk(absl::AnyInvocable<T() &&> work, absl::AnyInvocable<void(T) &&> then) {
  arrays_->memory().Begin();
  disk_->Post([memory = &arrays_->memory(), strand = context_->strand(), alive = context_->alive(), work = std::move(work),
               then = std::move(then)]() mutable {
    T result = std::move(work)();
    strand->Post([memory, alive = std::move(alive), result = std::move(result), then = std::move(then)]() mutable {
      if (alive.expired()) return;
      memory->End();
      std::move(then)(std::move(result));
    });
  });
}

void ArrayFiles::Handle(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kSaveTiles:
      return Save(command.save_tiles());
    case v1::Command::kCommitSave:
      return Commit(command.commit_save());
    case v1::Command::kDropSave:
      return Drop(command.drop_save());
    default:
      return Load(command.load_tiles());
  }
}

absl::StatusOr<std::shared_ptr<const storage::Place>> ArrayFiles::Resolve(const std::string& location,
                                                                          const std::string& user) const {
  if (disk_ == nullptr) return absl::FailedPreconditionError("this host has no files: it is simulated");
  return places_.Resolve(location, user);
}

bool ArrayFiles::TakeMemory(SessionId session, int64_t bytes, absl::AnyInvocable<void() &&> later) {
  if (HasRoom(bytes)) {
    in_memory_ += bytes;
    quota_->Add(HostQuota::Way::kFiles, session, bytes);
    return true;
  }
  arrays_->memory().Begin();
  waiting_[quota_->accounts().OwnerOf(session)].push_back({bytes, std::move(later)});
  return false;
}

void ArrayFiles::FreeMemory(SessionId session, int64_t bytes) {
  in_memory_ -= bytes;
  quota_->Add(HostQuota::Way::kFiles, session, -bytes);
  // A waiter takes its memory when it runs, which may be later. If others have taken the room by then, it waits again.
  size_t left = 0;
  for (const auto& [owner, waiters] : waiting_) left += waiters.size();
  for (; left > 0; --left) {
    auto next = waiting_.upper_bound(last_turn_);
    if (next == waiting_.end()) next = waiting_.begin();
    if (next == waiting_.end() || !HasRoom(next->second.front().bytes)) return;
    last_turn_ = next->first;
    Waiter waiter = std::move(next->second.front());
    next->second.pop_front();
    if (next->second.empty()) waiting_.erase(next);
    arrays_->memory().End();
    std::move(waiter.later)();
  }
}

absl::StatusOr<ArrayFiles::SavingRef> ArrayFiles::ParseSave(const v1::SaveTiles& command) const {
  auto saving = std::make_shared<Saving>();
  saving->op = command.op();
  saving->session = SessionId(command.session());
  saving->host = command.host();
  PW_ASSIGN_OR_RETURN(const auto place, Resolve(command.location(), command.user()));
  saving->save = place->Save(command.save());
  PW_ASSIGN_OR_RETURN(saving->array, SavedFrom(command.stored()));
  for (const auto& tile : command.tiles()) {
    PW_ASSIGN_OR_RETURN(buffers::Region region, RegionOfChunk(saving->array.array, tile.start()));
    saving->tiles.push_back({arrays_->store().FindOrFailed(ArrayId(command.array()), tile.shard()), std::move(region)});
  }
  return saving;
}

void ArrayFiles::Save(const v1::SaveTiles& command) {
  const absl::StatusOr<SavingRef> saving = ParseSave(command);
  if (!saving.ok()) return context_->outbox().Done(command.op(), OnHost(command.host(), saving.status()));
  if ((*saving)->tiles.empty()) return context_->outbox().Done(command.op(), absl::OkStatus());
  (*saving)->unwritten = (*saving)->tiles.size();
  for (SavedTile& tile : std::exchange((*saving)->tiles, {})) SubmitTile(*saving, std::move(tile));
}

void ArrayFiles::SubmitTile(const SavingRef& saving, SavedTile tile) {
  auto task = std::make_shared<Hazards::Task>();
  task->reads = {tile.shard};
  task->run = [this, saving, tile = std::move(tile), weak = std::weak_ptr<Hazards::Task>(task)](const absl::Status& input) {
    return StartTile(saving, tile, weak.lock(), input);
  };
  arrays_->hazards().Submit(std::move(task));
}

Hazards::Outcome ArrayFiles::StartTile(const SavingRef& saving, const SavedTile& tile, const Hazards::TaskRef& task,
                                       const absl::Status& input) {
  absl::Status status = input;
  if (context_->ended(saving->session)) status.Update(SessionEnded());
  device::DeviceBuffer* const buffer = tile.shard->buffer();
  if (status.ok() && (buffer->dtype() != saving->array.array.dtype || buffer->dims() != tile.region.size))
    status = absl::InvalidArgumentError("a save names a tile that has another type or shape than its shard");
  if (!status.ok() || !saving->status.ok()) {
    OnTileWritten(saving, status);
    return Hazards::Outcome::kDone;
  }
  const int64_t bytes = *buffers::DenseBytes(buffer->dtype(), buffer->dims());
  if (!TakeMemory(saving->session, bytes, [hazards = &arrays_->hazards(), task] { hazards->Release(task); })) {
    arrays_->hazards().Hold(task);
    return Hazards::Outcome::kWait;
  }
  arrays_->Await(buffer->ToHost(), [this, saving, tile, bytes](const absl::StatusOr<Bytes>& data) {
    if (data.ok()) return WriteTile(saving, tile, bytes, *data);
    FreeMemory(saving->session, bytes);
    // If the shard is failing, its own error is the reason to give. It may be known only a little later.
    tile.shard->OnSettled([this, saving, shard = tile.shard.get(), error = data.status()] {
      OnTileWritten(saving, shard->failed() ? shard->error() : error);
    });
  });
  return Hazards::Outcome::kDone;
}

void ArrayFiles::WriteTile(const SavingRef& saving, const SavedTile& tile, int64_t bytes, Bytes data) {
  OnDisk<absl::Status>(
      [saving, region = tile.region, data = std::move(data)] {
        std::call_once(saving->begun, [&] { saving->beginning = saving->save->Begin(saving->array); });
        return saving->beginning.ok() ? saving->save->WriteTile(saving->array, region, data) : saving->beginning;
      },
      [this, saving, bytes](absl::Status status) {
        FreeMemory(saving->session, bytes);
        OnTileWritten(saving, OnHost(saving->host, status));
      });
}

void ArrayFiles::OnTileWritten(const SavingRef& saving, const absl::Status& status) {
  saving->status.Update(status);
  if (--saving->unwritten > 0) return;
  if (!saving->status.ok()) return context_->outbox().Done(saving->op, saving->status);
  OnDisk<absl::Status>([saving, host = context_->self()] { return saving->save->AddHost(host); },
                       [this, saving](absl::Status added) { context_->outbox().Done(saving->op, OnHost(saving->host, added)); });
}

void ArrayFiles::Commit(const v1::CommitSave& command) {
  const absl::StatusOr<std::shared_ptr<const storage::Place>> place = Resolve(command.location(), command.user());
  absl::Status status = place.status();
  std::vector<storage::NamedArray> arrays;
  for (const auto& stored : command.arrays()) {
    absl::StatusOr<storage::NamedArray> array = SavedFrom(stored);
    status.Update(array.status());
    if (array.ok()) arrays.push_back(*std::move(array));
  }
  if (!status.ok()) return context_->outbox().Done(command.op(), OnHost(command.host(), status));
  std::vector<storage::ArraySave::Writer> writers;
  for (const auto& writer : command.writers()) writers.push_back({HostId(writer.host()), writer.name()});
  OnDisk<absl::Status>([save = (*place)->Save(command.save()), arrays = std::move(arrays),
                        writers = std::move(writers)] { return save->Commit(arrays, writers); },
                       [this, op = command.op(), host = command.host()](absl::Status committed) {
                         context_->outbox().Done(op, OnHost(host, committed));
                       });
}

void ArrayFiles::Drop(const v1::DropSave& command) {
  const absl::StatusOr<std::shared_ptr<const storage::Place>> place = Resolve(command.location(), command.user());
  if (!place.ok()) return context_->outbox().Done(command.op(), OnHost(command.host(), place.status()));
  using Dropped = storage::ArraySave::Dropped;
  OnDisk<absl::StatusOr<Dropped>>([save = (*place)->Save(command.save())] { return save->Drop(); },
                                  [this, op = command.op(), host = command.host()](absl::StatusOr<Dropped> dropped) {
                                    const absl::Status status = dropped.ok() ? StatusOf(*dropped) : dropped.status();
                                    context_->outbox().Done(op, OnHost(host, status));
                                  });
}

absl::StatusOr<ArrayFiles::LoadingRef> ArrayFiles::ParseLoad(const v1::LoadTiles& command) const {
  auto loading = std::make_shared<Loading>();
  loading->op = command.op();
  loading->session = SessionId(command.session());
  loading->host = command.host();
  PW_ASSIGN_OR_RETURN(loading->place, Resolve(command.location(), command.user()));
  PW_ASSIGN_OR_RETURN(loading->array, ArrayFrom(command.stored()));
  PW_RETURN_IF_ERROR(storage::CheckArrayName(loading->array.name));
  const int devices = static_cast<int>(arrays_->runtime()->devices().size());
  for (const auto& proto : command.tiles()) {
    LoadedTile tile;
    tile.region.start.assign(proto.region().start().begin(), proto.region().start().end());
    tile.region.size.assign(proto.region().size().begin(), proto.region().size().end());
    if (!buffers::Contains(loading->array.array.dims, tile.region.start, tile.region.size))
      return absl::InvalidArgumentError("a load names a tile that does not fit its array");
    for (const v1::Placement& placement : proto.placements()) {
      if (placement.local_device() < 0 || placement.local_device() >= devices)
        return absl::InvalidArgumentError(
            absl::StrCat("there is no local device ", placement.local_device(), "; this host has ", devices));
      tile.shards.emplace_back(arrays_->NewShard(placement.local_device(), loading->session), placement.memory_kind());
    }
    loading->unsettled += tile.shards.size();
    loading->tiles.push_back(std::move(tile));
  }
  return loading;
}

void ArrayFiles::Load(const v1::LoadTiles& command) {
  const ArrayId array(command.array());
  const absl::StatusOr<LoadingRef> parsed = ParseLoad(command);
  if (!parsed.ok()) {
    const absl::Status error = OnHost(command.host(), parsed.status());
    arrays_->store().Poison(array, error, SessionId(command.session()));
    return context_->outbox().Done(command.op(), error);
  }
  const LoadingRef& loading = *parsed;
  if (loading->unsettled == 0) return context_->outbox().Done(loading->op, absl::OkStatus());
  for (int t = 0; t < command.tiles_size(); ++t) {
    for (int p = 0; p < command.tiles(t).placements_size(); ++p)
      arrays_->store().Bind(array, command.tiles(t).placements(p).shard(), loading->tiles[t].shards[p].first, loading->session);
  }
  OnDisk<absl::StatusOr<storage::ZarrArray>>([loading] { return loading->place->Open(loading->array); },
                                             [this, loading](absl::StatusOr<storage::ZarrArray> stored) {
                                               loading->status = OnHost(loading->host, stored.status());
                                               if (stored.ok()) loading->array.array = *std::move(stored);
                                               StartLoad(loading);
                                             });
}

void ArrayFiles::StartLoad(const LoadingRef& loading) {
  const absl::Status error = loading->status;
  for (LoadedTile& tile : std::exchange(loading->tiles, {}))
    error.ok() ? ReadTile(loading, std::move(tile)) : PlaceTile(loading, std::move(tile), error);
}

void ArrayFiles::ReadTile(const LoadingRef& loading, LoadedTile tile) {
  if (context_->ended(loading->session)) return PlaceTile(loading, std::move(tile), SessionEnded());
  const int64_t bytes = *buffers::DenseBytes(loading->array.array.dtype, tile.region.size);
  if (!TakeMemory(loading->session, bytes, [this, loading, tile] { ReadTile(loading, tile); })) return;
  OnDisk<absl::StatusOr<Bytes>>([loading, region = tile.region] { return loading->place->Read(loading->array, region); },
                                [this, loading, tile, bytes](absl::StatusOr<Bytes> data) {
                                  if (!data.ok()) data = OnHost(loading->host, data.status());
                                  PlaceTile(loading, tile, std::move(data));
                                  FreeMemory(loading->session, bytes);
                                });
}

void ArrayFiles::PlaceTile(const LoadingRef& loading, LoadedTile tile, absl::StatusOr<Bytes> data) {
  for (auto& [shard, memory_kind] : tile.shards) {
    if (!data.ok()) {
      shard->SetFailed(data.status());
      OnShardSettled(loading, data.status());
      continue;
    }
    device::HostArray array;
    array.dtype = loading->array.array.dtype;
    array.dims = tile.region.size;
    array.data = *data;
    array.exclusive = tile.shards.size() == 1;
    Place(arrays_, shard, std::move(array), memory_kind,
          [this, loading](const absl::Status& status) { OnShardSettled(loading, status); });
  }
}

void ArrayFiles::OnShardSettled(const LoadingRef& loading, const absl::Status& status) {
  loading->status.Update(status);
  if (--loading->unsettled == 0) context_->outbox().Done(loading->op, loading->status);
}

}  // namespace pw::worker
