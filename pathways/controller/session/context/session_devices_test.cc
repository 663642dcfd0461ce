#include "pathways/controller/session/context/session_devices.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DeviceId kVirtual{resource::kFirstVirtualDevice.v + 100};  // the first of the session's two
DeviceId Virtual(int i) { return DeviceId(kVirtual.v + i); }

// A directory of one host with four devices, and a session's devices.
struct DevicesWorld {
  DevicesWorld() {
    resource::HostDescription description{"a", "i", "cpu", "1", {}};
    for (int i = 0; i < 4; ++i) {
      resource::DeviceDescription device;
      device.memories = {{"device", 0}, {"host", 1}};
      description.devices.push_back(std::move(device));
    }
    host = *directory.topology().AddHost(std::move(description));
    devices.SetVirtual(kVirtual, 2);
  }
  std::string Checked(const std::vector<DeviceId>& ids) const { return std::string(devices.Check(ids).message()); }

  HostId host;
  DeviceDirectory directory;
  SessionDevices devices{&directory};
};

TEST(SessionDevicesTest, AsksOnceBeforeItUsesADeviceWithoutASlice) {
  DevicesWorld world;
  world.directory.topology().Bind(Virtual(0), DeviceId(3));
  std::vector<std::vector<DeviceId>> asked;
  absl::Status answer;
  world.devices.SetMayUse([&](const std::vector<DeviceId>& devices) {
    asked.push_back(devices);
    return answer;
  });
  EXPECT_EQ(world.Checked({DeviceId(0), DeviceId(1), Virtual(0)}), "");
  EXPECT_EQ(world.Checked({DeviceId(1), DeviceId(2)}), "");
  EXPECT_EQ(world.Checked({DeviceId(0), DeviceId(2)}), "");
  EXPECT_THAT(asked, ElementsAre(ElementsAre(DeviceId(0), DeviceId(1)), ElementsAre(DeviceId(2))));
  answer = absl::ResourceExhaustedError("the quota");
  EXPECT_EQ(world.Checked({DeviceId(3)}), "the quota");
  EXPECT_EQ(world.Checked({DeviceId(3)}), "the quota") << "asked again";
  EXPECT_EQ(world.Checked({DeviceId(0)}), "");
}

TEST(SessionDevicesTest, VirtualDevicesAreOfOneSession) {
  DevicesWorld world;
  for (int i = 0; i < 3; ++i) world.directory.topology().Bind(Virtual(i), DeviceId(i));
  EXPECT_EQ(world.Checked({Virtual(0), Virtual(1), DeviceId(3)}), "");
  EXPECT_THAT(world.Checked({Virtual(2)}), HasSubstr("does not belong to a slice of this client"));
  EXPECT_THAT(world.Checked({DeviceId(kVirtual.v - 1)}), HasSubstr("does not belong to a slice of this client"));
  world.directory.topology().Unbind(Virtual(1));
  EXPECT_THAT(world.Checked({Virtual(1)}), HasSubstr("belongs to no slice"));
  EXPECT_THAT(world.Checked({SessionDevices::ScratchOf(Virtual(0))}), HasSubstr("belongs to no slice")) << "no move is prepared";
  world.directory.topology().Bind(SessionDevices::ScratchOf(Virtual(0)), DeviceId(3));
  EXPECT_EQ(world.Checked({SessionDevices::ScratchOf(Virtual(0))}), "");
}

TEST(SessionDevicesTest, OneComputationNeedsAPhysicalDeviceForEachPart) {
  DevicesWorld world;
  world.directory.topology().Bind(Virtual(0), DeviceId(1));
  world.directory.topology().Bind(Virtual(1), DeviceId(2));
  EXPECT_TRUE(world.devices.CheckApart({Virtual(0), Virtual(1), DeviceId(3)}).ok());
  EXPECT_THAT(std::string(world.devices.CheckApart({Virtual(0), DeviceId(1)}).message()), HasSubstr("both on physical"));
  EXPECT_THAT(world.devices.PhysicalOf({Virtual(1), DeviceId(0), DeviceId(9)}),
              ElementsAre(DeviceId(2), DeviceId(0), DeviceId(9)));
}

TEST(DeviceDirectoryTest, DevicesThatHaveGoneSayWhy) {
  DevicesWorld world;
  EXPECT_THAT(world.Checked({DeviceId(9)}), HasSubstr("does not exist"));
  EXPECT_THAT(world.Checked({DeviceId(1), DeviceId(1)}), HasSubstr("listed twice"));
  ASSERT_TRUE(world.directory.topology().RemoveHost(world.host).ok());
  world.directory.SetGone({DeviceId(0), DeviceId(1)}, absl::UnavailableError("it burnt"));
  EXPECT_EQ(world.Checked({DeviceId(1)}), "it burnt");
  world.directory.ForgetGone(DeviceId(1), 1);
  EXPECT_THAT(world.Checked({DeviceId(1)}), HasSubstr("does not exist"));
  EXPECT_EQ(world.Checked({DeviceId(0)}), "it burnt");
}

TEST(DeviceDirectoryTest, AMemoryKindIsOneOfTheDevices) {
  DevicesWorld world;
  EXPECT_EQ(*world.directory.MemoryKind(DeviceId(0), ""), "device");
  EXPECT_EQ(*world.directory.MemoryKind(DeviceId(0), "host"), "host");
  EXPECT_THAT(std::string(world.directory.MemoryKind(DeviceId(0), "tape").status().message()), HasSubstr("it has device, host"));
}

}  // namespace
}  // namespace pw::controller
