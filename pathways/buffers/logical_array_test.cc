#include "pathways/buffers/logical_array.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/testing/allocation_counter.h"

namespace pw::buffers {
namespace {

using testing::ElementsAre;
using State = LogicalArray::State;

struct Releases : LogicalArray::Listener {
  void OnReleased(const LogicalArray& array) override { ids.push_back(array.id()); }
  std::vector<ArrayId> ids;
};

std::shared_ptr<const ArraySpec> Spec(int shards) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < shards; ++i) devices.push_back(DeviceId(i));
  return std::make_shared<const ArraySpec>(ArraySpec{DType::kF32, {4}, Sharding::Replicated(std::move(devices), ""), ""});
}

LogicalArray::Ref Make(int completions, Releases* releases = nullptr, uint64_t id = 1) {
  return std::make_shared<LogicalArray>(ArrayId(id), SessionId(7), Spec(4), completions, releases);
}

// Returns a waiter that appends its status code to a list.
LogicalArray::Waiter Record(std::vector<absl::StatusCode>& out) {
  return [&out](const absl::Status& status) { out.push_back(status.code()); };
}

TEST(LogicalArrayTest, BecomesReadyWithTheLastCompletion) {
  std::vector<absl::StatusCode> seen;
  auto array = Make(2);
  array->WhenSettled(Record(seen));
  array->OnDone(absl::OkStatus());
  EXPECT_EQ(array->state(), State::kPending);
  EXPECT_TRUE(seen.empty());
  array->Expect(1);
  array->OnDone(absl::OkStatus());
  EXPECT_FALSE(array->settled());
  array->OnDone(absl::OkStatus());
  EXPECT_EQ(array->state(), State::kReady);
  array->WhenSettled(Record(seen));
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kOk));
  EXPECT_EQ(Make(0)->state(), State::kReady);
}

TEST(LogicalArrayTest, TheFirstErrorSettlesAndStays) {
  std::vector<absl::StatusCode> seen;
  auto array = Make(3);
  array->WhenSettled(Record(seen));
  array->OnDone(absl::OkStatus());
  array->OnDone(absl::DataLossError("first"));
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kDataLoss));
  array->OnDone(absl::InternalError("second"));
  array->Poison(absl::InternalError("third"));
  EXPECT_EQ(array->status().message(), "first");
  EXPECT_EQ(array->completions_missing(), 0);
  EXPECT_EQ(seen.size(), 1u);
}

TEST(LogicalArrayTest, LosingAHostPoisonsWhatLivedThere) {
  const absl::Status lost = absl::UnavailableError("host 'b0' of island 'b' was lost");
  auto ready = Make(0), pending = Make(1);
  std::vector<absl::StatusCode> seen;
  pending->WhenSettled(Record(seen));
  EXPECT_FALSE(ready->OnDevicesLost({DeviceId(4), DeviceId(5)}, lost));
  EXPECT_EQ(ready->state(), State::kReady);
  EXPECT_TRUE(ready->OnDevicesLost({DeviceId(3), DeviceId(4)}, lost));
  EXPECT_EQ(ready->status(), lost);
  EXPECT_TRUE(pending->OnDevicesLost({DeviceId(0)}, lost));
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kUnavailable));
  pending->OnDone(absl::OkStatus());  // from a host that is not lost
  EXPECT_EQ(pending->status(), lost);
}

TEST(LogicalArrayTest, ReleasesOnceWhenTheLastReferenceGoes) {
  Releases releases;
  auto array = Make(0, &releases);
  auto other = array;
  array.reset();
  EXPECT_TRUE(releases.ids.empty());
  other.reset();
  EXPECT_THAT(releases.ids, ElementsAre(ArrayId(1)));
}

TEST(LogicalArrayTest, DeleteReleasesAtOnceAndOnlyOnce) {
  Releases releases;
  auto array = Make(0, &releases);
  array->Delete();
  array->Delete();
  EXPECT_TRUE(array->deleted());
  EXPECT_EQ(array->state(), State::kReady);
  array.reset();
  EXPECT_EQ(releases.ids.size(), 1u);
}

TEST(LogicalArrayTest, WatchesKeepTheRecordAndNotTheData) {
  Releases releases;
  auto array = Make(1, &releases);
  auto reader = array;
  const std::weak_ptr<LogicalArray> op = array;
  int settled = 0;
  array->WhenSettled([&settled](const absl::Status& status) { settled += status.ok() ? 1 : 100; });
  std::vector<LogicalArray::Watch> watches;
  watches.emplace_back(array);
  watches.emplace_back(array);
  LogicalArray::Drop(std::move(array));
  EXPECT_TRUE(releases.ids.empty()) << "a reader needs the data";
  LogicalArray::Drop(std::move(reader));
  EXPECT_THAT(releases.ids, ElementsAre(ArrayId(1)));
  EXPECT_EQ(settled, 0);
  op.lock()->OnDone(absl::OkStatus());
  EXPECT_EQ(settled, 1);
  watches.clear();
  EXPECT_TRUE(op.expired());
  EXPECT_EQ(releases.ids.size(), 1u);
}

TEST(LogicalArrayTest, AWatchThatHasEndedDoesNotCount) {
  Releases releases;
  auto array = Make(0, &releases);
  { const LogicalArray::Watch watch(array); }
  auto reader = array;
  LogicalArray::Drop(std::move(array));
  EXPECT_TRUE(releases.ids.empty());
  LogicalArray::Drop(std::move(reader));
  EXPECT_THAT(releases.ids, ElementsAre(ArrayId(1)));
}

TEST(LogicalArrayTest, DonatedDataIsNotReleased) {
  Releases releases;
  auto array = Make(0, &releases);
  array->Donate();
  EXPECT_TRUE(array->deleted());
  array.reset();
  EXPECT_TRUE(releases.ids.empty());
}

TEST(LogicalArrayTest, ErrorsCanBeMadeAndHoldNothing) {
  auto array = LogicalArray::MakeError(ArrayId(3), SessionId(1), Spec(1), absl::InternalError("x"));
  EXPECT_EQ(array->state(), State::kError);
  array->Expect(2);
  array->OnDone(absl::OkStatus());
  EXPECT_EQ(array->status(), absl::InternalError("x"));
}

TEST(LogicalArrayTest, AWaiterMayHoldTheLastReference) {
  Releases releases;
  int runs = 0;
  auto array = Make(1, &releases);
  LogicalArray* raw = array.get();
  raw->WhenSettled([array, &runs](const absl::Status&) mutable {
    ++runs;
    array.reset();
  });
  array.reset();
  raw->OnDone(absl::OkStatus());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(releases.ids.size(), 1u);
}

TEST(LogicalArrayTest, WaitersOfADroppedArrayAreCancelled) {
  std::vector<absl::StatusCode> seen;
  auto array = Make(1);
  array->WhenSettled(Record(seen));
  array.reset();
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kCancelled));
}

TEST(LogicalArrayTest, WaitersMayAddWaiters) {
  std::vector<absl::StatusCode> seen;
  auto array = Make(1);
  array->WhenSettled([&, raw = array.get()](const absl::Status&) { raw->WhenSettled(Record(seen)); });
  array->OnDone(absl::OkStatus());
  EXPECT_EQ(seen.size(), 1u);
}

TEST(WhenAllSettledTest, ReportsTheFirstErrorInTheOrderOfTheArrays) {
  std::vector<absl::StatusCode> seen;
  std::vector<LogicalArray::Ref> arrays = {Make(0), Make(1), Make(1), Make(1)};
  WhenAllSettled(arrays, Record(seen));
  arrays[3]->Poison(absl::InternalError("later in order"));
  arrays[2]->Poison(absl::DataLossError("earlier in order"));
  EXPECT_TRUE(seen.empty());
  arrays[1]->OnDone(absl::OkStatus());
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kDataLoss));
  WhenAllSettled({arrays[2], arrays[3]}, Record(seen));
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kDataLoss, absl::StatusCode::kDataLoss));
  seen.pop_back();
  WhenAllSettled({}, Record(seen));
  WhenAllSettled({arrays[0], arrays[0]}, Record(seen));
  EXPECT_THAT(seen, ElementsAre(absl::StatusCode::kDataLoss, absl::StatusCode::kOk, absl::StatusCode::kOk));
}

TEST(LogicalArrayTest, MemoryDoesNotDependOnTheNumberOfShards) {
  std::vector<size_t> bytes, counts;
  Releases releases;
  releases.ids.reserve(3);
  for (int shards : {1, 8, 2048}) {
    const auto spec = Spec(shards);
    const Allocations before = AllocationsSoFar();
    auto array = std::make_shared<LogicalArray>(ArrayId(1), SessionId(7), spec, 1, &releases);
    array->WhenSettled([](const absl::Status&) {});
    array->OnDone(absl::OkStatus());
    array->Delete();
    array.reset();
    const Allocations after = AllocationsSoFar();
    bytes.push_back(after.bytes - before.bytes);
    counts.push_back(after.count - before.count);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(bytes[0], bytes[2]);
  EXPECT_THAT(counts, ElementsAre(2, 2, 2));  // the record and its list of waiters
  EXPECT_LE(bytes[0], 256u);
}

}  // namespace
}  // namespace pw::buffers
