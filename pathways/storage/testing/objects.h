// For tests: an object store in memory, whose users may be cut off at any request, as a process that is killed.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/storage/object_store.h"

namespace pw::storage::testing {

struct StoredObject {
  std::string data, mark;
};

// What all processes share.
struct ObjectsInMemory {
  std::mutex mu;
  std::map<std::string, StoredObject> objects;  // by "bucket/key"

  std::vector<std::string> Names() {
    std::lock_guard<std::mutex> lock(mu);
    std::vector<std::string> names;
    for (const auto& [name, object] : objects) names.push_back(name);
    return names;
  }
};

// One process's way to them.
class MemoryObjectStore final : public ObjectStore {
 public:
  // Serves `requests` requests; later ones are CANCELLED and do nothing.
  explicit MemoryObjectStore(std::shared_ptr<ObjectsInMemory> shared, int requests = 1 << 30)
      : shared_(std::move(shared)), left_(requests) {}

  absl::Status Put(const ObjectName& name, const Bytes& data) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    shared_->objects[Id(name)] = {Text(data), ""};
    return absl::OkStatus();
  }
  absl::Status PutNew(const ObjectName& name, const Bytes& data, const Mark& mark) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    const auto [at, added] = shared_->objects.try_emplace(Id(name), StoredObject{Text(data), mark});
    return added || at->second.mark == mark ? absl::OkStatus() : absl::AlreadyExistsError(Id(name));
  }
  absl::StatusOr<Mark> GetMark(const ObjectName& name) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    const auto found = shared_->objects.find(Id(name));
    if (found == shared_->objects.end()) return absl::NotFoundError(Id(name));
    return found->second.mark;
  }
  absl::StatusOr<Bytes> Get(const ObjectName& name, int64_t limit) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    const auto found = shared_->objects.find(Id(name));
    if (found == shared_->objects.end()) return absl::NotFoundError(Id(name));
    if (static_cast<int64_t>(found->second.data.size()) > limit) return absl::ResourceExhaustedError(Id(name));
    return Bytes::Copy(found->second.data);
  }
  absl::Status Read(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const override {
    const absl::StatusOr<Bytes> all = Get(name, 1 << 30);
    if (!all.ok()) return all.status();
    if (static_cast<int64_t>(all->size()) != bytes) return absl::DataLossError(Id(name));
    std::copy_n(all->data() + offset, out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> List(const ObjectName& name) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    std::vector<std::pair<std::string, int64_t>> found;
    for (const auto& [id, object] : shared_->objects) {
      if (absl::StartsWith(id, Id(name))) found.emplace_back(id.substr(name.bucket.size() + 1), object.data.size());
    }
    return found;
  }
  absl::Status Delete(const ObjectName& name) const override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (!Take()) return Cut();
    shared_->objects.erase(Id(name));
    return absl::OkStatus();
  }
  std::string Display(const ObjectName& name) const override { return absl::StrCat("mem://", Id(name)); }

  bool cut() const { return left_ < 0; }

 private:
  static std::string Id(const ObjectName& name) { return absl::StrCat(name.bucket, "/", name.key); }
  static std::string Text(const Bytes& data) { return std::string(data.view()); }
  static absl::Status Cut() { return absl::CancelledError("this process was killed"); }
  bool Take() const { return --left_ >= 0; }

  const std::shared_ptr<ObjectsInMemory> shared_;
  mutable int left_;  // guarded by shared_->mu
};

}  // namespace pw::storage::testing
