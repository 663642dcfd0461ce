// Plugin programs that answer with text: requests for virtual slices, which also name the slices' devices, the status, and profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/testing/session_fixture.h"

namespace pw::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SliceProgramTest : public testing::ClientSessionTest {
 protected:
  SliceProgramTest() {
    Connect({{kCompanionKey, std::string("token")}});
    Init();
  }
  IfrtResponse Ask(const std::string& what) {
    return Compile("xla::ifrt::PluginProgram", absl::StrCat("__serialized_plugin_program {\"sliceRequest\": ", what, "}"));
  }
  uint64_t next_answer_ = 50;
  // Returns the JSON that answers an accepted request.
  std::string AnswerOf(const IfrtResponse& compiled) {
    EXPECT_EQ(CodeOf(compiled), 0) << TextOf(compiled);
    EXPECT_EQ(CodeOf(Execute(compiled.compile_response().loaded_executable_handle(), {}, {next_answer_})), 0);
    const auto& array = fake().arrays[next_answer_++];
    EXPECT_EQ(array.spec.dtype, buffers::DType::kU8);
    return std::string(array.data->bytes.view());
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, SliceProgramTest, ::testing::Values(protocol::kOldest, protocol::kNewest));

TEST_P(SliceProgramTest, VirtualDevicesAreAddressableButNotPrimary) {
  Connect({{kCompanionKey, std::string("another")}});
  const IfrtResponse response = Init();
  const auto& init = response.init_response();
  EXPECT_EQ(init.all_devices_size(), 6);
  EXPECT_THAT(init.primary_device_ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(init.addressable_device_ids(), ElementsAre(0, 1, 2, 3, 1048576, 1048577));
  EXPECT_EQ(init.memories_size(), 6);
  Connect({});
  EXPECT_EQ(Init().init_response().all_devices_size(), 4) << "who cannot ask for slices needs none";
}

TEST_P(SliceProgramTest, ARequestIsUnderstood) {
  cluster_.slice_state.slice = SliceId(7);
  cluster_.slice_state.what = controller::SliceState::What::kPlaced;
  cluster_.slice_state.devices = {DeviceId(1048576), DeviceId(1048577)};
  cluster_.slice_state.physical = {DeviceId(2), DeviceId(3)};
  cluster_.slice_state.hosts = {"h", "h"};
  cluster_.slice_state.island = "right";
  cluster_.slice_state.epoch = 1;
  const auto compiled = Ask(R"({"add": {"shape": [2, 1], "platform": "tpu", "kind": "cpu", "island": "right", "beside": 3,
                                        "memory_per_device": 1024, "hosts": "pack", "exclusive": true}})");
  EXPECT_EQ(
      AnswerOf(compiled),
      R"({"slice":7,"state":"placed","island":"right","epoch":1,"devices":[1048576,1048577],"physical":[2,3],"hosts":["h","h"]})");
  const resource::SliceRequest& request = cluster_.last_slice_request;
  EXPECT_EQ(request.count, 2);
  EXPECT_THAT(request.shape, ElementsAre(2, 1));
  EXPECT_EQ(request.platform, "tpu");
  EXPECT_EQ(request.kind, "cpu");
  EXPECT_EQ(request.island, "right");
  EXPECT_EQ(request.beside, SliceId(3));
  EXPECT_EQ(request.memory_per_device, 1024);
  EXPECT_EQ(request.hosts, resource::HostChoice::kPack);
  EXPECT_TRUE(request.exclusive);
}

TEST_P(SliceProgramTest, WhoWaitsIsToldForWhat) {
  cluster_.slice_state.slice = SliceId(7);
  cluster_.slice_state.position = 2;
  cluster_.slice_state.text = "a \"device\"";
  EXPECT_EQ(AnswerOf(Ask(R"({"await": {"slice": 7, "seconds": 0.5}})")),
            R"({"slice":7,"state":"waiting","position":2,"text":"a \"device\""})");
  EXPECT_EQ(AnswerOf(Ask(R"({"release": {"slice": 7}})")), "{}");
  EXPECT_THAT(cluster_.released_slices, ElementsAre(SliceId(7)));
}

TEST_P(SliceProgramTest, TheStatusIsTheClusterS) {
  EXPECT_EQ(AnswerOf(Compile("xla::ifrt::PluginProgram", R"(__serialized_plugin_program {"statusRequest": {}})")),
            R"({"client_array_bytes": 0, "islands": []})");
}

TEST_P(SliceProgramTest, AProfileIsStartedStoppedReadAndDropped) {
  const auto compile = [&](const std::string& what) {
    return Compile("xla::ifrt::PluginProgram", absl::StrCat("__serialized_plugin_program {\"profilerRequest\": ", what, "}"));
  };
  EXPECT_EQ(AnswerOf(compile(R"({"start": {"merged": true}})")), "{}");
  EXPECT_EQ(AnswerOf(compile(R"({"stop": {}})")),
            R"({"hosts":[{"name":"h0","bytes":2,"missing":""},{"name":"h1","bytes":2,"missing":""}]})");
  EXPECT_EQ(AnswerOf(compile(R"({"read": {"host": 1, "offset": 0}})")), R"({"piece":"aA=="})");
  EXPECT_EQ(AnswerOf(compile(R"({"read": {"host": 1, "offset": 1}})")), R"({"piece":"MQ=="})");
  EXPECT_EQ(AnswerOf(compile(R"({"read": {"host": 1, "offset": 2}})")), R"({"piece":""})");
  EXPECT_EQ(AnswerOf(compile(R"({"drop": {}})")), "{}");
  EXPECT_EQ(cluster_.profiled, SessionId());
  EXPECT_EQ(CodeOf(compile(R"({"stop": {}})")), 9) << "there is none";
  for (const char* what : {R"({})", R"({"pause": {}})", R"({"stop": {}, "drop": {}})", R"({"read": {"host": -1}})", R"({"read": 1})"})
    EXPECT_EQ(CodeOf(compile(what)), 3) << what;
}

TEST_P(SliceProgramTest, WhatMakesNoSenseIsRefused) {
  for (const char* what :
       {R"({})", R"({"add": 1})", R"({"add": {"count": 0}})", R"({"add": {"count": 1.5}})", R"({"add": {"count": -1}})",
        R"({"add": {"count": 1e300}})", R"({"add": {"shape": [4611686018427387904, 4611686018427387904]}})",
        R"({"add": {"shape": [9007199254740992, 9007199254740992]}})", R"({"add": {"count": 1, "hosts": "far"}})",
        R"({"add": {"count": 1, "kind": 7}})", R"({"await": {"slice": 1, "seconds": 1e9}})", R"({"borrow": {"slice": 1}})",
        R"({"add": {"count": 1}, "release": {"slice": 1}})"}) {
    EXPECT_EQ(CodeOf(Ask(what)), 3) << what;
  }
}

}  // namespace
}  // namespace pw::frontend
