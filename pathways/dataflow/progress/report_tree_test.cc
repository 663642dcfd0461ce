#include "pathways/dataflow/progress/report_tree.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::dataflow {
namespace {

TEST(ReportTree, UpToTheFanInEveryoneHangsOnTheRoot) {
  const ReportTree tree(64, 64);
  EXPECT_EQ(tree.Children(0).size(), 63u);
  for (uint32_t p = 1; p < 64; ++p) EXPECT_EQ(tree.Parent(p), 0u);
}

TEST(ReportTree, OfThreeLevelsIsKnownByArithmetic) {
  const ReportTree tree(30, 4);
  EXPECT_THAT(tree.Children(0), testing::ElementsAre(1, 2, 3, 4, 8, 12, 16));
  EXPECT_THAT(tree.Children(16), testing::ElementsAre(17, 18, 19, 20, 24, 28));
  EXPECT_THAT(tree.Children(28), testing::ElementsAre(29));
  EXPECT_EQ(tree.SubtreeEnd(16), 30u);
  EXPECT_EQ(tree.SubtreeEnd(4), 8u);
}

// Every position's parent is the one that lists it as a child, subtrees are intervals, and the depth is logarithmic.
TEST(ReportTree, IsATreeForEverySize) {
  for (uint32_t fan_in : {2u, 3u, 7u, 64u}) {
    for (uint32_t size = 1; size <= 200; ++size) {
      const ReportTree tree(size, fan_in);
      uint32_t listed = 0;
      EXPECT_EQ(tree.Parent(0), std::nullopt);
      for (uint32_t p = 0; p < size; ++p) {
        uint32_t end = p + 1;
        for (uint32_t child : tree.Children(p)) {
          ASSERT_EQ(tree.Parent(child), p);
          ASSERT_EQ(child, end);
          end = tree.SubtreeEnd(child);
          ++listed;
        }
        ASSERT_EQ(end, tree.SubtreeEnd(p)) << "size " << size << " position " << p;
      }
      ASSERT_EQ(listed, size - 1);
    }
  }
}

TEST(ReportTree, TwoLevelsReachFourThousandHosts) {
  const ReportTree tree(4096, 64);
  EXPECT_EQ(tree.Parent(4095), 4032u);
  EXPECT_EQ(tree.Parent(4032), 0u);
  EXPECT_EQ(tree.Children(0).size(), 63u + 63u);
}

}  // namespace
}  // namespace pw::dataflow
