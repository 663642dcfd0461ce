// Sessions and arrays: every request kind, at every protocol version, against a cluster without workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/testing/session_fixture.h"

namespace pw::frontend {
namespace {

using testing::ClientSessionTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

INSTANTIATE_TEST_SUITE_P(Versions, ClientSessionTest, ::testing::Range(protocol::kOldest, protocol::kNewest + 1));

TEST_P(ClientSessionTest, InitDescribesTheCluster) {
  const IfrtResponse response = Init();
  const auto& init = response.init_response();
  EXPECT_EQ(init.platform_name(), "cpu");
  EXPECT_EQ(init.runtime_type(), "pathways");
  EXPECT_EQ(init.all_devices_size(), 4);
  EXPECT_THAT(init.primary_device_ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(init.addressable_device_ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(init.all_devices(2).default_memory_id(), 2);
  EXPECT_EQ(init.all_devices(2).attributes().attributes().at("island").string_value(), "right");
  const auto& attributes = init.client_attributes().attributes();
  EXPECT_TRUE(attributes.at("serialize_with_sdy").bool_value());
  EXPECT_FALSE(attributes.at("supports_executable_serialization").bool_value());
  EXPECT_THAT(attributes.at("stablehlo_current_version").int64_list_value().elements(), ElementsAre(1, 13, 7));
  EXPECT_TRUE(table_.Find(init.session_id()).ok());
}

TEST_P(ClientSessionTest, IslandsAreSlicesToEveryClient) {
  auto slices = [](const IfrtResponse& response) {
    std::vector<int64_t> slices;
    const auto& primary = response.init_response().primary_device_ids();
    for (const auto& device : response.init_response().all_devices()) {
      if (std::find(primary.begin(), primary.end(), device.id()) == primary.end()) continue;  // a virtual device
      slices.push_back(device.attributes().attributes().at("slice_index").int64_value());
    }
    return slices;
  };
  EXPECT_THAT(slices(Init()), ElementsAre(0, 0, 1, 1));
  Connect({{kCompanionKey, std::string("token")}});
  EXPECT_THAT(slices(Init()), ElementsAre(0, 0, 1, 1));
}

TEST_P(ClientSessionTest, ASecondInitIsRefusedAndTheSessionGoesOn) {
  Init();
  EXPECT_EQ(CodeOf(Init()), 9);
  EXPECT_EQ(CodeOf(MakeArray(1)), 0);
}

TEST_P(ClientSessionTest, NothingWorksBeforeInit) {
  EXPECT_EQ(CodeOf(MakeArray(1)), 9);
  EXPECT_THAT(TextOf(CheckReady({1})), HasSubstr("init_request"));
}

TEST_P(ClientSessionTest, RequestsWaitUntilTheSessionIsOpen) {
  IfrtRequest init, ready;
  init.mutable_init_request();
  init.mutable_request_metadata()->set_op_id(1);
  ready.mutable_check_value_ready_request();
  ready.mutable_request_metadata()->set_op_id(2);
  session_->Run(Decode(handlers_, init));
  session_->Run(Decode(handlers_, ready));
  EXPECT_EQ(sink_.ran, 1) << "the second waits";
  EXPECT_TRUE(sink_.responses.empty());
  cluster_.RunAll();
  EXPECT_EQ(sink_.ran, 2);
  ASSERT_EQ(sink_.responses.size(), 2u);
  EXPECT_TRUE(sink_.responses[0].has_init_response());
  EXPECT_EQ(CodeOf(sink_.responses[1]), 0) << TextOf(sink_.responses[1]);
}

TEST_P(ClientSessionTest, AClientThatGoesWhileItsSessionIsBeingOpenedLeavesNothing) {
  IfrtRequest init;
  init.mutable_init_request();
  session_->Run(Decode(handlers_, init));
  session_->End();
  cluster_.RunAll();
  EXPECT_TRUE(cluster_.sessions.empty());
  EXPECT_TRUE(sink_.responses.empty());
}

TEST_P(ClientSessionTest, AClusterThatHasNotFormedSaysSo) {
  cluster_.open_error = absl::UnavailableError("waiting for 1 of 2 workers");
  EXPECT_THAT(TextOf(Init()), HasSubstr("waiting for 1 of 2"));
  cluster_.open_error = absl::OkStatus();
  EXPECT_EQ(CodeOf(Init()), 0);
}

TEST_P(ClientSessionTest, UnknownKindIsUnimplementedAndTheSessionGoesOn) {
  Init();
  IfrtRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(99, "");
  EXPECT_EQ(CodeOf(Call(std::move(request))), 12);
  EXPECT_EQ(CodeOf(MakeArray(1)), 0);
}

TEST_P(ClientSessionTest, AnArrayTakesItsHostBufferBeforeOrAfter) {
  Init();
  ASSERT_TRUE(fake().StoreHostBuffer(1, Bytes::Copy("0123456789abcdef")).ok());
  EXPECT_EQ(MakeArray(1).make_array_from_host_buffer_response().array_handle(), 1);
  EXPECT_EQ(CodeOf(MakeArray(2)), 0);
  ASSERT_TRUE(fake().StoreHostBuffer(2, Bytes::Copy("fedcba9876543210")).ok());
  EXPECT_EQ(fake().arrays[1].data->bytes.view(), "0123456789abcdef");
  EXPECT_EQ(fake().arrays[2].data->bytes.view(), "fedcba9876543210");
  EXPECT_THAT(*fake().arrays[1].sources[0].layout.byte_strides, ElementsAre(4));
  EXPECT_THAT(fake().arrays[1].sources[0].shards, ElementsAre(0));
}

TEST_P(ClientSessionTest, AReplicatedArrayIsFedByOneBuffer) {
  Init();
  IfrtRequest request;
  auto& make = *request.mutable_make_array_from_host_buffer_request();
  make.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_S4);
  *make.mutable_sharding() = ShardingToProto(buffers::Sharding::Replicated({DeviceId(0), DeviceId(1), DeviceId(2)}, ""));
  make.set_array_handle(5);
  make.set_host_buffer_handle(5);
  EXPECT_EQ(CodeOf(Call(std::move(request))), 0);
  EXPECT_THAT(fake().arrays[5].sources[0].shards, ElementsAre(0, 1, 2));
}

TEST_P(ClientSessionTest, ARequestThatIsNotUnderstoodPoisonsItsResults) {
  Init();
  IfrtRequest request;
  auto& make = *request.mutable_make_array_from_host_buffer_request();
  make.mutable_dtype()->set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(77));
  make.set_array_handle(1);
  EXPECT_EQ(CodeOf(Call(std::move(request))), 12);
  EXPECT_THAT(TextOf(CheckReady({1})), HasSubstr("77"));
  IfrtRequest destruct;
  destruct.mutable_destruct_array_request()->add_array_handle(1);
  EXPECT_EQ(CodeOf(Call(std::move(destruct))), 0);
}

TEST_P(ClientSessionTest, ShardsComeByPosition) {
  Init();
  IfrtRequest request;
  auto& make = *request.mutable_make_arrays_from_host_buffer_shards_request();
  auto& spec = *make.add_specs();
  *spec.mutable_array_spec() = SpecOf();
  *spec.mutable_array_spec()->mutable_sharding() =
      ShardingToProto(*buffers::Sharding::Tiled({DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}, "", {{2}, {0, 1, 0, 1}}));
  for (int b : {0, 1}) {
    auto& buffer = *spec.add_host_buffers();
    buffer.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
    buffer.mutable_shape()->add_dims(2);
    buffer.set_host_buffer_handle(10 + b);
    auto& indices = *spec.add_addressable_shard_indices();
    indices.add_indices(b);
    indices.add_indices(b + 2);
  }
  make.add_array_handles(10);
  IfrtRequest bad = request;
  EXPECT_EQ(CodeOf(Call(std::move(request))), 0);
  EXPECT_THAT(fake().arrays[10].sources[1].shards, ElementsAre(1, 3));
  auto& broken = *bad.mutable_make_arrays_from_host_buffer_shards_request();
  broken.set_array_handles(0, 20);
  broken.mutable_specs(0)->mutable_addressable_shard_indices(1)->set_indices(0, 4);
  EXPECT_EQ(CodeOf(Call(bad)), 3);
  EXPECT_EQ(CodeOf(CheckReady({20})), 3);
  broken.mutable_specs(0)->mutable_addressable_shard_indices()->RemoveLast();
  broken.set_array_handles(0, 21);
  EXPECT_EQ(CodeOf(Call(bad)), 3);
}

TEST_P(ClientSessionTest, ErrorArraysHoldTheirError) {
  Init();
  IfrtRequest request;
  auto& make = *request.mutable_make_error_arrays_request();
  make.mutable_error()->set_code(tensorflow::error::DATA_LOSS);
  make.mutable_error()->set_message("lost");
  *make.add_array_specs() = SpecOf();
  make.add_array_handles(3);
  EXPECT_EQ(CodeOf(Call(std::move(request))), 0);
  EXPECT_EQ(CodeOf(CheckReady({3})), 15);
}

TEST_P(ClientSessionTest, ArraysFromArrays) {
  Init();
  MakeArray(1);
  IfrtRequest assemble;
  assemble.mutable_assemble_array_from_single_device_arrays_request()->mutable_shape()->add_dims(4);
  *assemble.mutable_assemble_array_from_single_device_arrays_request()->mutable_sharding() = OnDevice(0);
  assemble.mutable_assemble_array_from_single_device_arrays_request()->add_single_device_array_handles(1);
  assemble.mutable_assemble_array_from_single_device_arrays_request()->set_result_handle(2);
  EXPECT_EQ(Call(std::move(assemble)).assemble_array_from_single_device_arrays_response().array_handle(), 2);
  EXPECT_EQ(fake().arrays[2].spec.dtype, buffers::DType::kF32);

  IfrtRequest disassemble;
  disassemble.mutable_disassemble_into_single_device_arrays_request()->set_array_handle(2);
  EXPECT_THAT(Call(disassemble).disassemble_into_single_device_arrays_response().array_handles(),
              ElementsAre(controller::kFirstServerHandle));
  disassemble.mutable_disassemble_into_single_device_arrays_request()->add_result_handles(3);
  EXPECT_THAT(Call(disassemble).disassemble_into_single_device_arrays_response().array_handles(), ElementsAre(3));

  IfrtRequest shard;
  shard.mutable_fully_replicated_shard_request()->set_array_handle(2);
  shard.mutable_fully_replicated_shard_request()->set_result_handle(4);
  EXPECT_EQ(Call(std::move(shard)).fully_replicated_shard_response().array_handle(), 4);

  IfrtRequest copy;
  copy.mutable_copy_arrays_request()->add_array_handles(1);
  copy.mutable_copy_arrays_request()->add_result_handles(5);
  EXPECT_EQ(CodeOf(Call(copy)), 0);
  EXPECT_FALSE(fake().last_copy_devices.has_value());
  EXPECT_FALSE(fake().last_copy_memory_kind.has_value());
  copy.mutable_copy_arrays_request()->set_result_handles(0, 6);
  copy.mutable_copy_arrays_request()->add_device_ids(2);
  copy.mutable_copy_arrays_request()->set_memory_kind("");
  EXPECT_EQ(CodeOf(Call(copy)), 0);
  EXPECT_THAT(*fake().last_copy_devices, ElementsAre(DeviceId(2)));
  EXPECT_EQ(*fake().last_copy_memory_kind, "");
  copy.mutable_copy_arrays_request()->add_result_handles(7);
  EXPECT_EQ(CodeOf(Call(copy)), 3);
  EXPECT_EQ(CodeOf(CheckReady({7})), 3);

  IfrtRequest reshard;
  reshard.mutable_reshard_arrays_request()->add_array_handles(1);
  reshard.mutable_reshard_arrays_request()->add_result_handles(8);
  EXPECT_EQ(CodeOf(Call(reshard)), 3);  // no spec
  *reshard.mutable_reshard_arrays_request()->add_array_specs() = SpecOf(3);
  reshard.mutable_reshard_arrays_request()->set_result_handles(0, 9);
  EXPECT_EQ(CodeOf(Call(reshard)), 0);
  EXPECT_EQ(fake().arrays[9].spec.sharding.devices()[0], DeviceId(3));

  IfrtRequest bitcast;
  bitcast.mutable_bitcast_arrays_request()->add_array_handles(1);
  bitcast.mutable_bitcast_arrays_request()->add_result_handles(10);
  *bitcast.mutable_bitcast_arrays_request()->add_array_specs() = SpecOf();
  EXPECT_THAT(Call(bitcast).bitcast_arrays_response().array_handles(), ElementsAre(10));

  IfrtRequest remap;
  remap.mutable_remap_arrays_request()->add_array_handles(1);
  remap.mutable_remap_arrays_request()->add_result_handles(11);
  *remap.mutable_remap_arrays_request()->mutable_plan()->add_output_specs() = SpecOf();
  remap.mutable_remap_arrays_request()->mutable_plan()->add_mappings();
  EXPECT_THAT(Call(remap).remap_arrays_response().array_handles(), ElementsAre(11));
  EXPECT_EQ(fake().last_remap.mappings.size(), 1);
}

TEST_P(ClientSessionTest, UnknownArraysAreErrorsEverywhere) {
  Init();
  EXPECT_EQ(CodeOf(CheckReady({99})), 5);
  IfrtRequest copy;
  copy.mutable_copy_to_host_buffer_request()->set_array_handle(99);
  copy.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(100);
  EXPECT_EQ(CodeOf(Call(std::move(copy))), 5);
  IfrtRequest shard;
  shard.mutable_fully_replicated_shard_request()->set_array_handle(99);
  shard.mutable_fully_replicated_shard_request()->set_result_handle(101);
  EXPECT_EQ(CodeOf(Call(std::move(shard))), 5);
  EXPECT_EQ(CodeOf(CheckReady({101})), 5);
  IfrtRequest deleted;
  deleted.mutable_is_array_deleted_request()->set_array_handle(99);
  EXPECT_EQ(CodeOf(Call(std::move(deleted))), 5);
  EXPECT_EQ(CodeOf(CheckFuture(99)), 5);
  EXPECT_EQ(CodeOf(Execute(99, {}, {102})), 5);
}

TEST_P(ClientSessionTest, CopyToHostBufferLeavesTheBytesForLookup) {
  Init();
  MakeArray(1);
  ASSERT_TRUE(fake().StoreHostBuffer(1, Bytes::Copy("0123456789abcdef")).ok());
  IfrtRequest copy;
  copy.mutable_copy_to_host_buffer_request()->set_array_handle(1);
  copy.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(2);
  EXPECT_EQ(CodeOf(Call(std::move(copy))), 0);
  EXPECT_EQ(fake().host_buffers[2].view(), "0123456789abcdef");
}

TEST_P(ClientSessionTest, DeletesAndTheirFuturesStayOutOfTheCount) {
  Init();
  EXPECT_EQ(sink_.responses.back().response_metadata().seq_num(), 0);
  MakeArray(1);
  EXPECT_EQ(sink_.responses.back().response_metadata().seq_num(), 1);
  IfrtRequest remove;
  remove.mutable_delete_array_request()->add_array_handle(1);
  remove.mutable_request_metadata()->set_user_context_id(11);
  const IfrtResponse deleted = Call(std::move(remove));
  EXPECT_EQ(deleted.response_metadata().seq_num(), 0);
  EXPECT_THAT(deleted.response_metadata().destroyed_user_context_ids(), IsEmpty());
  EXPECT_EQ(CheckFuture(deleted.delete_array_response().deletion_future_handle()).response_metadata().seq_num(), 0);
  EXPECT_EQ(CodeOf(CheckFuture(deleted.delete_array_response().deletion_future_handle())), 5);  // consumed
  IfrtRequest is_deleted;
  is_deleted.mutable_is_array_deleted_request()->set_array_handle(1);
  is_deleted.mutable_request_metadata()->set_user_context_id(12);
  const IfrtResponse answer = Call(std::move(is_deleted));
  EXPECT_TRUE(answer.is_array_deleted_response().deleted());
  EXPECT_EQ(answer.response_metadata().seq_num(), 2);
  EXPECT_THAT(answer.response_metadata().destroyed_user_context_ids(), UnorderedElementsAre(11, 12));
  IfrtRequest destruct;
  destruct.mutable_destruct_array_request()->add_array_handle(1);
  destruct.mutable_destruct_array_request()->add_array_handle(98);
  EXPECT_EQ(CodeOf(Call(std::move(destruct))), 5);
  EXPECT_THAT(fake().arrays, IsEmpty());
  EXPECT_EQ(MakeArray(1).response_metadata().seq_num(), 3);
}

TEST_P(ClientSessionTest, ErrorsReleaseNoContexts) {
  Init();
  IfrtRequest bad;
  bad.mutable_is_array_deleted_request()->set_array_handle(99);
  bad.mutable_request_metadata()->set_user_context_id(5);
  EXPECT_THAT(Call(std::move(bad)).response_metadata().destroyed_user_context_ids(), IsEmpty());
  EXPECT_THAT(MakeArray(1).response_metadata().destroyed_user_context_ids(), ElementsAre(5));
  EXPECT_THAT(MakeArray(2).response_metadata().destroyed_user_context_ids(), IsEmpty());
}

TEST_P(ClientSessionTest, DefaultLayoutAlwaysHasText) {
  Init();
  IfrtRequest request;
  auto& layout = *request.mutable_get_default_layout_request();
  EXPECT_EQ(Call(request).get_default_layout_response().serialized_pjrt_layout(), "{}");
  layout.mutable_dtype()->set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(77));
  layout.set_device_id(-5);
  layout.set_memory_kind("nowhere");
  for (int i = 0; i < 3; ++i) layout.add_dims(-1);
  EXPECT_EQ(Call(request).get_default_layout_response().serialized_pjrt_layout(), "{2,1,0}");
}

TEST_P(ClientSessionTest, DefaultDeviceAssignmentIsTheFirstDevices) {
  Init();
  IfrtRequest request;
  request.mutable_get_default_device_assignment_request()->set_num_replicas(2);
  request.mutable_get_default_device_assignment_request()->set_num_partitions(2);
  const auto response = Call(request);
  const auto& assignment = response.get_default_device_assignment_response().device_assignment();
  EXPECT_THAT(assignment.computation_devices(1).replica_device_ids(), ElementsAre(1, 3));
  request.mutable_get_default_device_assignment_request()->set_num_replicas(uint64_t{1} << 63);
  EXPECT_EQ(CodeOf(Call(request)), 3);
}

TEST_P(ClientSessionTest, HostCallbacksAreNeverFound) {
  Init();
  IfrtRequest poll;
  poll.mutable_loaded_host_callback_poll_request()->set_loaded_host_callback_handle(1);
  EXPECT_EQ(CodeOf(Call(std::move(poll))), 5);
}

TEST_P(ClientSessionTest, EndFreesTheControllersSessionAndSilencesLateAnswers) {
  Init();
  MakeArray(1);
  IfrtRequest wait;
  wait.mutable_check_value_ready_request()->add_value_handles(1);
  session_->Run(Decode(handlers_, wait));
  const size_t answers = sink_.responses.size();
  session_->End();
  EXPECT_THAT(cluster_.sessions, IsEmpty());
  EXPECT_EQ(table_.size(), 0);
  cluster_.RunAll();
  EXPECT_EQ(sink_.responses.size(), answers);
}

TEST_P(ClientSessionTest, RequestsOfASuspendedClientWaitAndRunInOrder) {
  Init();
  fake().pause = true;
  const int ran = sink_.ran;
  for (uint64_t handle : {1, 2, 3}) MakeArray(handle);
  EXPECT_THAT(fake().arrays, IsEmpty());
  EXPECT_EQ(sink_.ran, ran);  // they still count in the client's backlog
  const size_t answers = sink_.responses.size();
  fake().Resume();
  cluster_.RunAll();
  EXPECT_EQ(fake().arrays.size(), 3);
  EXPECT_EQ(sink_.ran, ran + 3);
  ASSERT_EQ(sink_.responses.size(), answers + 3);
  for (uint64_t handle : {1, 2, 3})
    EXPECT_EQ(sink_.responses[answers + handle - 1].make_array_from_host_buffer_response().array_handle(), handle);
}

TEST(VersionsTest, TheNewestCommonVersionWins) {
  xla::ifrt::proxy::IfrtProxyVersion min, max;
  min.set_protocol_version(16);
  max.set_protocol_version(22);
  max.set_ifrt_serdes_version_number(3);
  EXPECT_EQ(Negotiate(min, max)->protocol_version(), 22);
  EXPECT_EQ(Negotiate(min, max)->ifrt_serdes_version_number(), 3);
  max.set_protocol_version(40);
  EXPECT_EQ(Negotiate(min, max)->protocol_version(), 25);
  min.set_protocol_version(26);
  EXPECT_THAT(Negotiate(min, max).status().message(), HasSubstr("26 to 40"));
  min.set_protocol_version(1);
  max.set_protocol_version(14);
  EXPECT_THAT(Negotiate(min, max).status().message(), HasSubstr("newer jaxlib"));
  min.set_protocol_version(20);
  EXPECT_EQ(Negotiate(min, max).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pw::frontend
