// Arrays that clients of this machine read from shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/plugin_programs/host_memory.h"
#include "pathways/frontend/testing/session_fixture.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::frontend {
namespace {

using testing::ClientSessionTest;

class HostMemoryTest : public ClientSessionTest {
 protected:
  HostMemoryTest() {
    Init();
    program_ = Make("[0]", MachineIdentity()).compile_response().loaded_executable_handle();
  }
  IfrtResponse Make(const std::string& devices, const std::string& machine) {
    return Compile("xla::ifrt::PluginProgram",
                   absl::StrCat(R"(__serialized_plugin_program {"hostMemoryRequest": {"device_ids": )", devices,
                                R"(, "machine": ")", machine, R"("}})"));
  }
  Bytes Shared(const std::string& text) {
    net::SharedMemory memory = *factory_.Create(text.size());
    std::memcpy(memory.data(), text.data(), text.size());
    return std::move(memory).Freeze();
  }
  // Asks where array 1 lies; the answer is array 2.
  net::SharedName Ask() {
    EXPECT_EQ(CodeOf(Execute(program_, {1}, {2})), 0);
    std::array<uint64_t, 6> n{};
    const Bytes& answer = fake().arrays.at(2).data->bytes;
    EXPECT_EQ(answer.size(), sizeof(n));
    std::memcpy(n.data(), answer.data(), sizeof(n));
    return {static_cast<int64_t>(n[0]), static_cast<int32_t>(n[1]), n[2], n[3], n[4], n[5]};
  }
  net::SharedMemoryFactory factory_;
  uint64_t program_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Versions, HostMemoryTest, ::testing::Values(protocol::kNewest));

TEST_P(HostMemoryTest, TheAnswerNamesTheMemoryWhichStaysUntilItIsReleased) {
  MakeArray(1);
  ASSERT_TRUE(fake().StoreHostBuffer(1, Shared("0123456789abcdef")).ok());
  cluster_.RunAll();
  const size_t buffers = fake().host_buffers.size();
  const net::SharedName name = Ask();
  const absl::StatusOr<Bytes> found = net::OpenShared(name, false);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->view(), "0123456789abcdef");
  EXPECT_EQ(fake().host_buffers.size(), buffers + 1) << "the memory counts as staged";
  EXPECT_EQ(CodeOf(Execute(program_, {2}, {3})), 0);
  EXPECT_EQ(fake().host_buffers.size(), buffers);
  EXPECT_EQ(fake().arrays.at(3).data->bytes.view(), std::string(48, '\0'));
}

TEST_P(HostMemoryTest, WhatCameOverANetworkIsCopiedOnce) {
  const std::string large(net::SharedMemoryFactory::kWorthwhileBytes, 'x');
  MakeArray(1);
  ASSERT_TRUE(fake().StoreHostBuffer(1, Bytes::Copy(large)).ok());
  cluster_.RunAll();
  const size_t buffers = fake().host_buffers.size();
  const net::SharedName name = Ask();
  const absl::StatusOr<Bytes> found = net::OpenShared(name, false);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->view(), large);
  EXPECT_EQ(fake().host_buffers.size(), buffers) << "what the copy was made of is gone";
  EXPECT_EQ(CodeOf(Execute(program_, {2}, {3})), 0);
  EXPECT_FALSE(net::OpenShared(name, false).ok()) << "so is the copy";
}

TEST_P(HostMemoryTest, ALittleThatIsNotSharedIsReadInTheOrdinaryWay) {
  MakeFilledArray(1);
  cluster_.RunAll();
  const size_t buffers = fake().host_buffers.size();
  EXPECT_EQ(Ask().pid, 0);
  EXPECT_EQ(fake().host_buffers.size(), buffers) << "nothing is kept";
}

TEST_P(HostMemoryTest, SoIsAnError) {
  ASSERT_TRUE(fake()
                  .MakeErrorArray(1, {buffers::DType::kF32, {4}, buffers::Sharding::SingleDevice(DeviceId(0), "device"), ""},
                                  absl::InternalError("computation failed"))
                  .ok());
  EXPECT_EQ(Ask().pid, 0);
}

TEST_P(HostMemoryTest, TheProgramIsChecked) {
  EXPECT_NE(CodeOf(Make("[]", MachineIdentity())), 0);
  EXPECT_NE(CodeOf(Make("[4294967296]", MachineIdentity())), 0) << "no device has such a number";
  EXPECT_EQ(CodeOf(Make("[0]", "")), static_cast<int>(absl::StatusCode::kUnimplemented));
  EXPECT_EQ(CodeOf(Make("[0]", "another 1")), static_cast<int>(absl::StatusCode::kUnimplemented));
  EXPECT_NE(CodeOf(Execute(program_, {}, {2})), 0);
}

}  // namespace
}  // namespace pw::frontend
