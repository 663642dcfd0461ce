#include "pathways/base/memory/machine_memory.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace pw {
namespace {

namespace fs = std::filesystem;

void Limit(const fs::path& group, const std::string& text) {
  fs::create_directories(group);
  std::ofstream(group / "memory.max") << text << "\n";
}

TEST(MachineMemory, IsTheLeastLimitOfTheGroupsThatThisProcessIsIn) {
  const fs::path root = fs::path(testing::TempDir()) / "groups";
  Limit(root / "pod", "3000");
  Limit(root / "pod/container", "max");
  Limit(root / "pod/container/step", "5000");
  Limit(root / "other", "7");
  EXPECT_EQ(LimitOfGroup(root, "1:cpu:/other\n0::/pod/container/step\n", 9000), 3000);
  EXPECT_EQ(LimitOfGroup(root, "0::/pod/container/step\n", 2000), 2000) << "the machine has less";
  EXPECT_EQ(LimitOfGroup(root, "0::/nowhere\n", 9000), 9000);
  EXPECT_EQ(LimitOfGroup(root, "4:memory:/other\n", 9000), 9000) << "the first version of groups";
  EXPECT_EQ(LimitOfGroup(root, "", 9000), 9000);
  Limit(root, "40");
  EXPECT_EQ(LimitOfGroup(root, "0::/\n", 9000), 40) << "inside a container its group is the root";
  fs::remove_all(root);
}

TEST(MachineMemory, IsMoreThanWhatIsAvailable) {
  EXPECT_GT(HalfOfMemory(), 0);
  EXPECT_GT(AvailableMemory(), 0);
}

}  // namespace
}  // namespace pw
