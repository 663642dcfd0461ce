#include "pathways/controller/hosts/host_holdings.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Holdings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const HostId kHost(0);
const SessionId kSession(3);

uint64_t Name(uint64_t request, uint64_t session = 3, bool own = false) {
  return *RequestName{SessionId(session), request, 0, own}.Number();
}

buffers::ArraySpec Spec(buffers::Dims dims) {
  return {buffers::DType::kF32, std::move(dims), buffers::Sharding::SingleDevice(DeviceId(0), ""), {}};
}

Holdings Part(std::vector<uint64_t> arrays, bool last = true) {
  Holdings part;
  auto& shape = *part.add_shapes();
  shape.set_dtype(static_cast<int>(buffers::DType::kF32));
  shape.add_dims(4);
  shape.set_memory_kind("device");
  for (uint64_t array : arrays) {
    part.add_arrays(array);
    part.add_shape_of_array(0);
  }
  part.set_last(last);
  return part;
}

class HostHoldingsTest : public ::testing::Test {
 protected:
  HostHoldingsTest() { holdings_.Await(kHost, {kSession}); }
  std::optional<HostHoldings::Found> Find(uint64_t name, const buffers::ArraySpec& spec, const std::string& memory = "device") {
    return holdings_.Find(kSession, kHost, ArrayId(name), spec, memory);
  }
  HostHoldings holdings_;
};

TEST_F(HostHoldingsTest, AReportIsCompleteWithItsLastPart) {
  EXPECT_FALSE(holdings_.complete());
  EXPECT_TRUE(holdings_.Add(kHost, Part({Name(1)}, false)).ok());
  EXPECT_FALSE(holdings_.complete());
  EXPECT_TRUE(holdings_.Add(kHost, Part({Name(2)})).ok());
  EXPECT_TRUE(holdings_.complete());
  EXPECT_TRUE(Find(Name(1), Spec({4}))->state.ok());
  EXPECT_TRUE(Find(Name(2), Spec({4}))->state.ok());
  EXPECT_FALSE(Find(Name(3), Spec({4})).has_value());
  EXPECT_FALSE(holdings_.Add(kHost, Part({Name(3)})).ok()) << "nothing more was to come";
  holdings_.RemoveHost(kHost);
  EXPECT_FALSE(Find(Name(1), Spec({4})).has_value());
}

TEST_F(HostHoldingsTest, AClientMustDescribeAnArrayAsItsHostsDo) {
  ASSERT_TRUE(holdings_.Add(kHost, Part({Name(1)})).ok());
  for (const auto& [spec, memory] : std::vector<std::pair<buffers::ArraySpec, std::string>>{
           {Spec({8}), "device"}, {Spec({4, 1}), "device"}, {Spec({4}), "pinned_host"}}) {
    const auto found = Find(Name(1), spec, memory);
    EXPECT_EQ(found->state.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(found->poisoned);
  }
}

TEST_F(HostHoldingsTest, APoisonedArrayHasItsError) {
  Holdings part = Part({});
  part.add_poisoned()->set_array(Name(1));
  session::ToProto(absl::OutOfRangeError("too large"), part.mutable_poisoned(0)->mutable_error());
  ASSERT_TRUE(holdings_.Add(kHost, part).ok());
  EXPECT_EQ(Find(Name(1), Spec({4}))->state, absl::OutOfRangeError("too large"));
  EXPECT_TRUE(Find(Name(1), Spec({4}))->poisoned);
}

TEST_F(HostHoldingsTest, ArraysOfOtherSessionsAndMalformedReportsAreRefused) {
  EXPECT_FALSE(holdings_.Add(kHost, Part({Name(1, 4)})).ok());
  EXPECT_FALSE(holdings_.Add(HostId(1), Part({Name(1)})).ok());
  Holdings part = Part({Name(1)});
  part.set_shape_of_array(0, 1);
  EXPECT_FALSE(holdings_.Add(kHost, part).ok());
  part.clear_shape_of_array();
  EXPECT_FALSE(holdings_.Add(kHost, part).ok());
  part = Part({});
  part.add_poisoned()->set_array(Name(1));
  EXPECT_FALSE(holdings_.Add(kHost, part).ok()) << "by no error";
}

TEST_F(HostHoldingsTest, SomeSessionsCannotBeRestored) {
  EXPECT_TRUE(holdings_.Check(kSession).ok());
  Holdings part = Part({}, false);
  part.add_cut_sessions(3);
  ASSERT_TRUE(holdings_.Add(kHost, part).ok());
  EXPECT_THAT(std::string(holdings_.Check(kSession).message()), HasSubstr("a computation was under way"));
  holdings_.Forget(kSession);
  EXPECT_THAT(holdings_.sessions(), IsEmpty());
  holdings_.Await(kHost, {kSession});
  ASSERT_TRUE(holdings_.Add(kHost, Part({Name(1, 3, true)})).ok());
  EXPECT_THAT(std::string(holdings_.Check(kSession).message()), HasSubstr("virtual slice"));
  std::vector<ArrayId> visited;
  holdings_.ForEach(kSession, [&](HostId, ArrayId array) { visited.push_back(array); });
  EXPECT_THAT(visited, ElementsAre(ArrayId(Name(1, 3, true))));
}

}  // namespace
}  // namespace pw::controller
