#include "pathways/worker/store/holdings.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "pathways/worker/store/outbox.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr int kMostOfPart = 16384;  // arrays in one event

using Shape = std::tuple<int, std::vector<int64_t>, std::string>;

// Returns the error of an array one of whose shards has failed; OK if all are ready.
absl::Status ErrorOf(const Holdings::Array& array) {
  absl::Status error = array.error;
  for (const auto& [index, shard] : array.shards) {
    if (shard->failed()) error.Update(shard->error());
    if (shard->buffer() == nullptr) error.Update(absl::FailedPreconditionError("an array has been donated or deleted"));
  }
  return error;
}

v1::Holdings* NewPart(Outbox* outbox) { return outbox->Add()->mutable_holdings(); }

}  // namespace

void TakeArrays(ObjectStore& store, const std::set<SessionId>& sessions, Holdings* holdings) {
  store.ForEachArray([&](ArrayId id, SessionId session, const ShardRef& poison, const auto& shards) {
    if (!sessions.contains(session)) return;
    Holdings::Array array{id, session, poison == nullptr ? absl::OkStatus() : poison->error()};
    for (const auto& [index, shard] : shards) {
      if (shard->settled()) array.shards.emplace_back(index, shard);
    }
    if (!array.error.ok() || !array.shards.empty()) holdings->arrays.push_back(std::move(array));
  });
  std::sort(holdings->arrays.begin(), holdings->arrays.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
}

void BindArrays(const Holdings& holdings, ObjectStore* store) {
  // Nothing of the Worker before uses them any more.
  for (const Holdings::Array& array : holdings.arrays) {
    for (const auto& [index, shard] : array.shards) shard->Leave();
  }
  for (const Holdings::Array& array : holdings.arrays) {
    if (!array.error.ok()) store->Poison(array.id, array.error, array.session);
    for (const auto& [index, shard] : array.shards) store->Bind(array.id, index, shard, array.session);
  }
}

void Report(const Holdings& holdings, Outbox* outbox) {
  v1::Holdings* part = NewPart(outbox);
  std::map<Shape, int> shapes;  // of this part
  for (const Holdings::Array& array : holdings.arrays) {
    if (part->arrays_size() + part->poisoned_size() == kMostOfPart) {
      part = NewPart(outbox);
      shapes.clear();
    }
    if (const absl::Status error = ErrorOf(array); !error.ok()) {
      auto& poisoned = *part->add_poisoned();
      poisoned.set_array(array.id.v);
      *poisoned.mutable_error() = ToProto(error);
      continue;
    }
    const device::DeviceBuffer& buffer = *array.shards.front().second->buffer();
    // Contents that were moved out are in another memory until they are needed.
    const std::string kind = array.shards.front().second->moved_out() > 0 ? "" : buffer.memory_kind();
    Shape shape(static_cast<int>(buffer.dtype()), {buffer.dims().begin(), buffer.dims().end()}, kind);
    const auto [known, is_new] = shapes.try_emplace(shape, part->shapes_size());
    if (is_new) {
      auto& added = *part->add_shapes();
      added.set_dtype(std::get<0>(shape));
      added.mutable_dims()->Add(buffer.dims().begin(), buffer.dims().end());
      added.set_memory_kind(kind);
    }
    part->add_arrays(array.id.v);
    part->add_shape_of_array(static_cast<uint32_t>(known->second));
  }
  for (SessionId session : holdings.cut) part->add_cut_sessions(session.v);
  part->set_last(true);
}

}  // namespace pw::worker
