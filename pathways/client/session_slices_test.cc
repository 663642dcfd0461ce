#include "pathways/client/session_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/resource/topology.h"

namespace pw::client {
namespace {

using ::pathways::v1::AddSlice;
using ::pathways::v1::Restore;
using ::pathways::v1::RestoredSlices;
using ::pathways::v1::SliceReport;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kFirst = resource::kFirstVirtualDevice.v;

// A placed slice of one device.
SliceReport Placed(uint64_t slice, int device, int physical) {
  SliceReport report;
  report.set_slice(slice);
  report.set_what(SliceReport::PLACED);
  report.add_devices(kFirst + device);
  report.add_physical(physical);
  report.add_hosts("a");
  return report;
}

AddSlice One() {
  AddSlice asked;
  asked.set_count(1);
  return asked;
}

class SessionSlicesTest : public ::testing::Test {
 protected:
  // The client's requests up to this one are acknowledged, and kept.
  void Keep(uint64_t last) {
    for (uint64_t number = kept_up_to_ + 1; number <= last; ++number) {
      std::deque<KeptRequests::Message> messages(1);
      kept_.Keep(number, std::move(messages));
    }
    kept_up_to_ = last;
  }
  void Settle(uint64_t number) {
    kept_.Settle({number, number});
    slices_.OnSettled(kept_.settled_up_to());
  }
  RestoredSlices Written() {
    RestoredSlices written;
    last_.Clear();
    slices_.Write(kept_, &written, &last_);
    return written;
  }

  SessionSlices slices_;
  KeptRequests kept_;
  uint64_t kept_up_to_ = 0;
  Restore last_;
};

TEST_F(SessionSlicesTest, TheDevicesAreToldByKinds) {
  session::SpareDevices spares;
  const auto add = [&](int id, const std::string& kind) {
    spares.devices.emplace_back().id = DeviceId(id);
    spares.devices.back().kind = kind;
  };
  add(3, "of an empty seat");
  for (int i = 0; i < 3; ++i) add(kFirst + i, "a");
  for (int i = 3; i < 5; ++i) add(kFirst + i, "b");
  slices_.SetDevices(spares);
  const RestoredSlices written = Written();
  EXPECT_EQ(written.first_device(), kFirst);
  EXPECT_THAT(written.kinds(), ElementsAre("a", "b"));
  EXPECT_THAT(written.counts(), ElementsAre(3, 2));
}

TEST_F(SessionSlicesTest, ASliceIsToldAsItWasReportedLast) {
  SliceReport waiting;
  waiting.set_slice(7);
  slices_.Add(One(), waiting);
  slices_.Update(Placed(7, 0, 3));
  slices_.Update(Placed(7, 0, 4));
  slices_.Update(Placed(8, 1, 5));  // another session's
  const RestoredSlices written = Written();
  ASSERT_EQ(written.slices_size(), 1);
  EXPECT_EQ(written.slices(0).asked().count(), 1);
  EXPECT_THAT(written.slices(0).report().physical(), ElementsAre(4));
  EXPECT_FALSE(written.slices(0).leaves());
  EXPECT_EQ(written.last_slice(), 7u);
}

TEST_F(SessionSlicesTest, ARefusedSliceIsForgottenButItsNumberIsNot) {
  SliceReport refused;
  refused.set_slice(9);
  refused.set_what(SliceReport::REFUSED);
  slices_.Add(One(), refused);
  EXPECT_THAT(Written().slices(), IsEmpty());
  EXPECT_EQ(Written().last_slice(), 9u);
}

TEST_F(SessionSlicesTest, AReleasedSliceIsToldUntilEarlierRequestsAreSettled) {
  slices_.Add(One(), Placed(1, 0, 3));
  Keep(5);
  slices_.Release(SliceId(1), 4);
  ASSERT_EQ(Written().slices_size(), 1);
  EXPECT_TRUE(Written().slices(0).leaves());
  EXPECT_THAT(last_.released_slices(), IsEmpty()) << "the release itself is carried out again";

  Settle(4);
  ASSERT_EQ(Written().slices_size(), 1) << "requests 1 to 3 may use its devices";
  EXPECT_THAT(last_.released_slices(), ElementsAre(1));

  for (uint64_t number : {1, 2, 3}) Settle(number);
  const RestoredSlices written = Written();
  EXPECT_THAT(written.slices(), IsEmpty());
  EXPECT_THAT(last_.released_slices(), IsEmpty());
  EXPECT_THAT(written.released_devices(), ElementsAre(kFirst));
  EXPECT_THAT(written.released_physical(), ElementsAre(3));
}

TEST_F(SessionSlicesTest, ADeviceThatIsUsedAgainIsNotReleased) {
  slices_.Add(One(), Placed(1, 0, 3));
  slices_.Release(SliceId(1), 4);
  slices_.OnSettled(4);
  slices_.Add(One(), Placed(2, 0, 3));
  EXPECT_THAT(Written().released_devices(), IsEmpty());
}

}  // namespace
}  // namespace pw::client
