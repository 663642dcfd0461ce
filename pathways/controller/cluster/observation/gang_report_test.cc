#include "pathways/controller/cluster/observation/gang_report.h"

#include <algorithm>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace pw::controller {
namespace {

TEST(GangReport, HasEachProgramOnceWithItsDevices) {
  const auto label = std::make_shared<const GangLabel>(
      GangLabel{ExecutableId(9), "jit_\"f\"", {{DeviceId(0), DeviceId(3)}, {DeviceId(6), DeviceId(6)}}});
  GangReport report{.now_ns = 5'000'000, .after = 4, .last = 6};
  report.ended.push_back({5, gang::GangId(11), SessionId(2), label, 1'000'000, 2'500'000, 1'200'000, false});
  report.ended.push_back({6, gang::GangId(12), SessionId(3), nullptr, 2'000'000, 3'000'000, 0, true});
  report.underway.push_back({gang::GangId(13), SessionId(2), ExecutableId(9), true, 4'000'000, label});
  EXPECT_EQ(ToJson(report),
            "{\"now\":5000,\"last\":6,\"missed\":0,\"ended\":[[5,11,2,9,1000,2500,1200,0],[6,12,3,0,2000,3000,0,1]],\"underway\":"
            "[[13,2,9,4000]],"
            "\"programs\":[{\"id\":9,\"name\":\"jit_\\\"f\\\"\",\"devices\":[[0,3],[6,6]]}]}");
}

TEST(GangReport, SaysHowManyRecordsItsReaderHasMissed) {
  GangReport report{.after = 4, .last = 10};
  report.ended.resize(2);
  EXPECT_NE(ToJson(report).find("\"missed\":4"), std::string::npos);
  report.after = 8;
  EXPECT_NE(ToJson(report).find("\"missed\":0"), std::string::npos);
}

TEST(GangReport, ListsABoundedNumberUnderWay) {
  GangReport report;
  report.underway.resize(GangReport::kMostUnderway + 1);
  const std::string json = ToJson(report);
  EXPECT_EQ(std::count(json.begin(), json.end(), '['), static_cast<std::ptrdiff_t>(3 + GangReport::kMostUnderway));
}

}  // namespace
}  // namespace pw::controller
