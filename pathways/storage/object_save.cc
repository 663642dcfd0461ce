#include "pathways/storage/object_save.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/v1/storage.pb.h"

namespace pw::storage {
namespace {

constexpr char kSavePrefix[] = ".pathways-save-";
constexpr int64_t kMostCommitBytes = 16 << 20;
constexpr int kThreads = 8;  // a commit waits for a few requests for each array

Bytes NoBytes() { return Bytes::FromString(""); }

// Calls f(item) for all items, several at a time. Returns the error of the first that failed.
template <class T>
absl::Status ForAll(const std::vector<T>& items, const std::function<absl::Status(const T&)>& f) {
  std::vector<absl::Status> done(items.size());
  if (items.size() == 1) return f(items[0]);
  {
    ThreadPool pool("pw-objects", static_cast<int>(std::min<size_t>(kThreads, std::max<size_t>(items.size(), 1))));
    for (size_t i = 0; i < items.size(); ++i) pool.Post([&, i] { done[i] = f(items[i]); });
  }  // waits
  for (const absl::Status& status : done) PW_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// Returns the parts of the keys behind `folder`, a key that ends with '/'.
std::vector<std::string> KeysBelow(const std::vector<std::pair<std::string, int64_t>>& objects, const std::string& folder) {
  std::vector<std::string> keys;
  for (const auto& object : objects) keys.push_back(object.first.substr(folder.size()));
  return keys;
}

std::vector<std::string> KeysBehind(const std::vector<std::string>& keys, absl::string_view start) {
  std::vector<std::string> found;
  for (const std::string& key : keys) {
    if (absl::StartsWith(key, start)) found.push_back(key.substr(start.size()));
  }
  return found;
}

}  // namespace

ObjectSave::ObjectSave(ObjectLocation location, std::string id)
    : location_(std::move(location)), id_(std::move(id)), staging_(kSavePrefix + id_) {}

absl::Status ObjectSave::Begin(const NamedArray& array) const {
  PW_RETURN_IF_ERROR(CheckSaveId(id_));
  PW_RETURN_IF_ERROR(CheckArrayName(array.name));
  const ObjectStore& store = *location_.store;
  PW_RETURN_IF_ERROR(store.PutNew(Own("arrays/" + array.name), NoBytes(), id_));
  const absl::Status claimed = store.PutNew(Claim(array.name), NoBytes(), id_);
  const std::string path = store.Display(location_ / array.name);
  if (absl::IsAlreadyExists(claimed))
    return absl::AlreadyExistsError(absl::StrCat("cannot write ", path,
                                                 ": another save writes this array, or was cut off. Save to another location, "
                                                 "or remove what is there if no save goes on"));
  PW_RETURN_IF_ERROR(claimed);
  const absl::Status described = store.GetMark(location_ / absl::StrCat(array.name, "/", kZarrMetadataFile)).status();
  if (described.ok())
    return absl::AlreadyExistsError(absl::StrCat("cannot write ", path,
                                                 ": the array exists, and in an object store a save replaces none. Save to "
                                                 "another location, or remove the array first"));
  return absl::IsNotFound(described) ? absl::OkStatus() : described;
}

absl::Status ObjectSave::WriteTile(const NamedArray& array, const buffers::Region& region, const Bytes& data) const {
  PW_RETURN_IF_ERROR(CheckSaveId(id_));
  PW_RETURN_IF_ERROR(CheckArrayName(array.name));
  const auto write = [&](const std::string& file, const Bytes& chunk) -> absl::Status {
    const ObjectName name = location_ / absl::StrCat(array.name, "/", file);
    const absl::Status written = location_.store->PutNew(name, chunk, id_);
    if (!absl::IsAlreadyExists(written)) return written;
    // Left by an array that was removed, or a save that was dropped: the array was not there when this save claimed it.
    PW_RETURN_IF_ERROR(location_.store->Delete(name));
    return location_.store->PutNew(name, chunk, id_);
  };
  return WriteZarrChunk(write, array.array, region, data);
}

absl::Status ObjectSave::AddHost(HostId host) const {
  PW_RETURN_IF_ERROR(CheckSaveId(id_));
  return location_.store->PutNew(Own(absl::StrCat("hosts/", host.v)), NoBytes(), id_);
}

absl::StatusOr<ObjectSave::Keys> ObjectSave::ListOwn() const {
  const ObjectName folder = Own("");
  PW_ASSIGN_OR_RETURN(const auto objects, location_.store->List(folder));
  return KeysBelow(objects, folder.key);
}

absl::Status ObjectSave::CheckChunks(const NamedArray& array) const {
  const ObjectName folder = location_ / (array.name + "/");
  PW_ASSIGN_OR_RETURN(const auto objects, location_.store->List(folder));
  std::map<std::string, int64_t> sizes;
  for (const auto& [key, bytes] : objects) sizes[key.substr(folder.key.size())] = bytes;
  const auto open = [&](const std::string& file, int64_t bytes) -> absl::StatusOr<ReadChunk> {
    const auto found = sizes.find(file);
    const std::string path = location_.store->Display({folder.bucket, folder.key + file});
    if (found == sizes.end()) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": it does not exist"));
    if (found->second == bytes) return ReadChunk();
    return absl::DataLossError(absl::StrCat(path, " has ", found->second, " bytes instead of ", bytes));
  };
  return CheckZarrChunks(open, array.array);
}

absl::Status ObjectSave::CheckArrays(const std::vector<NamedArray>& arrays) const {
  return ForAll<NamedArray>(arrays, [this](const NamedArray& array) -> absl::Status {
    PW_RETURN_IF_ERROR(Begin(array));  // an array without elements has no tile, and so no claim yet
    return CheckChunks(array);
  });
}

absl::Status ObjectSave::Commit(const std::vector<NamedArray>& arrays, const std::vector<Writer>& writers) const {
  PW_RETURN_IF_ERROR(CheckSaveId(id_));
  PW_ASSIGN_OR_RETURN(const Keys before, ListOwn());
  for (const Writer& writer : writers) {
    if (std::count(before.begin(), before.end(), absl::StrCat("hosts/", writer.host.v)) > 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(writer.name, " has written its part of the arrays, but its objects are not in ", location_.Display(),
                     " here: the hosts do not share that object store. Give all workers the same --object-store"));
  }
  ::pathways::v1::SaveCommit commit;
  for (const NamedArray& array : arrays) {
    PW_RETURN_IF_ERROR(CheckArrayName(array.name));
    PW_ASSIGN_OR_RETURN(std::string metadata, ZarrMetadata(array.array));
    auto& proto = *commit.add_arrays();
    proto.set_name(array.name);
    proto.set_metadata(std::move(metadata));
  }
  PW_RETURN_IF_ERROR(CheckArrays(arrays));
  PW_RETURN_IF_ERROR(location_.store->Put(Own("commit"), Bytes::FromString(commit.SerializeAsString())));
  PW_ASSIGN_OR_RETURN(const Keys own, ListOwn());
  return Finish(own);
}

absl::Status ObjectSave::FinishArray(const std::string& name, const std::string& metadata) const {
  // Without the claim, another process has written the description. The array may be gone by now, and another save's.
  const absl::StatusOr<std::string> claim = location_.store->GetMark(Claim(name));
  if (absl::IsNotFound(claim.status()) || (claim.ok() && *claim != id_)) return location_.store->Delete(Own("arrays/" + name));
  PW_RETURN_IF_ERROR(claim.status());
  const ObjectName description = location_ / absl::StrCat(name, "/", kZarrMetadataFile);
  const absl::Status described = location_.store->PutNew(description, Bytes::FromString(metadata), id_);
  if (!described.ok() && !absl::IsAlreadyExists(described)) return described;
  PW_RETURN_IF_ERROR(location_.store->Delete(Claim(name)));
  return location_.store->Delete(Own("arrays/" + name));
}

// REQUIRES: the save is committed. `own`: what it has in its folder.
absl::Status ObjectSave::Finish(const Keys& own) const {
  const ObjectName name = Own("commit");
  const absl::StatusOr<Bytes> data = location_.store->Get(name, kMostCommitBytes);
  if (absl::IsNotFound(data.status())) return absl::OkStatus();  // another process has finished it
  PW_RETURN_IF_ERROR(data.status());
  using Array = ::pathways::v1::SaveCommit::Array;
  ::pathways::v1::SaveCommit commit;
  bool sound = commit.ParseFromArray(data->data(), static_cast<int>(data->size()));
  for (const Array& array : commit.arrays()) sound = sound && CheckArrayName(array.name()).ok();
  if (!sound) return absl::DataLossError(absl::StrCat(location_.store->Display(name), " is damaged: remove it by hand"));
  const std::vector<Array> arrays(commit.arrays().begin(), commit.arrays().end());
  PW_RETURN_IF_ERROR(ForAll<Array>(arrays, [this](const Array& array) { return FinishArray(array.name(), array.metadata()); }));
  for (const std::string& host : KeysBehind(own, "hosts/")) PW_RETURN_IF_ERROR(location_.store->Delete(Own("hosts/" + host)));
  return location_.store->Delete(name);
}

// Removes the tiles of an array that this save has claimed.
absl::Status ObjectSave::RemoveArray(const std::string& name) const {
  const ObjectStore& store = *location_.store;
  const absl::StatusOr<std::string> claim = store.GetMark(Claim(name));
  if (claim.ok() && *claim == id_) {
    const ObjectName folder = location_ / (name + "/");
    PW_ASSIGN_OR_RETURN(const auto objects, store.List(folder));
    const Keys keys = KeysBelow(objects, folder.key);
    if (std::count(keys.begin(), keys.end(), kZarrMetadataFile) == 0) {
      for (const std::string& key : keys) {  // other arrays may be in folders of this one
        if (!absl::StrContains(key, '/') && key != ".pathways-save")
          PW_RETURN_IF_ERROR(store.Delete({folder.bucket, folder.key + key}));
      }
    }
    PW_RETURN_IF_ERROR(store.Delete(Claim(name)));
  } else if (!claim.ok() && !absl::IsNotFound(claim.status())) {
    return claim.status();
  }
  return store.Delete(Own("arrays/" + name));
}

absl::StatusOr<ArraySave::Dropped> ObjectSave::Drop() const {
  PW_RETURN_IF_ERROR(CheckSaveId(id_));
  PW_ASSIGN_OR_RETURN(const Keys own, ListOwn());
  if (own.empty()) return Dropped::kAbsent;
  if (std::count(own.begin(), own.end(), "commit") > 0) {
    PW_RETURN_IF_ERROR(Finish(own));
    return Dropped::kCompleted;
  }
  const Keys hosts = KeysBehind(own, "hosts/");
  PW_RETURN_IF_ERROR(ForAll<std::string>(KeysBehind(own, "arrays/"), [this](const std::string& name) {
    return CheckArrayName(name).ok() ? RemoveArray(name) : absl::OkStatus();
  }));
  for (const std::string& host : hosts) PW_RETURN_IF_ERROR(location_.store->Delete(Own("hosts/" + host)));
  return hosts.empty() ? Dropped::kRemains : Dropped::kRemoved;
}

absl::Status ObjectSave::Complete(const ObjectLocation& location) {
  const ObjectName start = location / kSavePrefix;
  PW_ASSIGN_OR_RETURN(const auto objects, location.store->List(start));
  std::map<std::string, Keys> saves;  // by their IDs
  for (const std::string& key : KeysBelow(objects, start.key)) {
    const size_t slash = key.find('/');
    if (slash != std::string::npos) saves[key.substr(0, slash)].push_back(key.substr(slash + 1));
  }
  for (const auto& [id, own] : saves) {
    const bool committed = std::count(own.begin(), own.end(), "commit") > 0;
    if (committed && CheckSaveId(id).ok()) PW_RETURN_IF_ERROR(ObjectSave(location, id).Finish(own));
  }
  return absl::OkStatus();
}

}  // namespace pw::storage
