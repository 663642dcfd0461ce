#include "pathways/base/sort_and_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pathways/base/ids.h"

namespace pw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SortAndMerge, LeavesEachValueOnceInAscendingOrder) {
  std::vector<HostId> hosts = {HostId(7), HostId(2), HostId(7), HostId(2), HostId(5)};
  SortAndMerge(hosts);
  EXPECT_THAT(hosts, ElementsAre(HostId(2), HostId(5), HostId(7)));
}

TEST(SortAndMerge, LeavesNothingOfNothing) {
  std::vector<int> none;
  SortAndMerge(none);
  EXPECT_THAT(none, IsEmpty());
}

}  // namespace
}  // namespace pw
