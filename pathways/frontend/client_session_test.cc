// Every request kind, at every protocol version, against a cluster without workers.
#include "pathways/frontend/client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/testing/fake_cluster.h"
#include "pathways/frontend/versions.h"

namespace pw::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kServerHandle = controller::kFirstServerHandle;

class Sink final : public ResponseSink {
 public:
  void Write(IfrtResponse response) override { responses.push_back(std::move(response)); }
  std::vector<IfrtResponse> responses;
};

class ClientSessionTest : public ::testing::TestWithParam<int> {
 protected:
  ClientSessionTest() {
    SessionHello hello;
    hello.protocol_version = GetParam();
    hello.serdes_version = 3;
    hello.peer = "ipv4:127.0.0.1:4242";
    session_ = std::make_shared<ClientSession>(&cluster_, &table_, hello, &sink_);
  }

  // The answer to `request`, or one with op_id 0 if none has come. Checks what holds for all answers.
  IfrtResponse Call(IfrtRequest request) {
    request.mutable_request_metadata()->set_op_id(++op_id_);
    IfrtRequest reparsed;  // as from the wire
    EXPECT_TRUE(reparsed.ParseFromString(request.SerializeAsString()));
    session_->Run(Decode(handlers_, reparsed));
    cluster_.RunAll();
    for (const IfrtResponse& response : sink_.responses) {
      if (response.response_metadata().op_id() != op_id_) continue;
      const bool ok = response.response_metadata().status().code() == 0;
      EXPECT_EQ(ok, response.response_case() != IfrtResponse::RESPONSE_NOT_SET) << response.ShortDebugString();
      return response;
    }
    return IfrtResponse();
  }
  static int CodeOf(const IfrtResponse& response) { return response.response_metadata().status().code(); }
  static std::string TextOf(const IfrtResponse& response) { return response.response_metadata().status().message(); }

  IfrtResponse Init() {
    IfrtRequest request;
    request.mutable_init_request();
    return Call(std::move(request));
  }
  testing::FakeSession& fake() { return *cluster_.sessions.begin()->second; }

  static xla::ifrt::ShardingProto OnDevice(int device) {
    return ShardingToProto(buffers::Sharding::SingleDevice(DeviceId(device), "device"));
  }
  static xla::ifrt::ArraySpecProto SpecOf(int device = 0) {
    xla::ifrt::ArraySpecProto spec;
    spec.mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
    spec.mutable_shape()->add_dims(4);
    *spec.mutable_sharding() = OnDevice(device);
    return spec;
  }
  // f32[4] on device 0 under `handle`.
  IfrtResponse MakeArray(uint64_t handle) {
    IfrtRequest request;
    auto& make = *request.mutable_make_array_from_host_buffer_request();
    const auto spec = SpecOf();
    *make.mutable_dtype() = spec.dtype();
    *make.mutable_shape() = spec.shape();
    *make.mutable_sharding() = spec.sharding();
    make.set_host_buffer_handle(handle);
    make.set_array_handle(handle);
    make.mutable_byte_strides()->add_strides(4);
    return Call(std::move(request));
  }
  IfrtResponse CheckReady(std::vector<uint64_t> handles) {
    IfrtRequest request;
    request.mutable_check_value_ready_request()->mutable_value_handles()->Assign(handles.begin(), handles.end());
    return Call(std::move(request));
  }
  IfrtResponse Compile(const std::string& type, const std::string& program, const std::string& options = "") {
    IfrtRequest request;
    auto& compile = *request.mutable_compile_request();
    compile.mutable_program()->set_type_name(type);
    compile.mutable_program()->set_data(program);
    compile.mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
    compile.mutable_compile_options()->set_data(options);
    return Call(std::move(request));
  }
  uint64_t CompileJit() { return Compile("xla::ifrt::XlaProgram", "stablehlo").compile_response().loaded_executable_handle(); }
  IfrtResponse Execute(uint64_t executable, std::vector<uint64_t> args, std::vector<uint64_t> results, uint64_t status = 0) {
    IfrtRequest request;
    auto& execute = *request.mutable_loaded_executable_execute_request();
    execute.set_loaded_executable_handle(executable);
    execute.mutable_args_handles()->Assign(args.begin(), args.end());
    execute.mutable_result_array_handle()->Assign(results.begin(), results.end());
    execute.set_result_status_handle(status);
    execute.mutable_execute_options()->set_fill_status(status != 0);
    execute.mutable_execute_options()->set_launch_id(7);
    return Call(std::move(request));
  }
  IfrtResponse CheckFuture(uint64_t handle) {
    IfrtRequest request;
    request.mutable_check_future_request()->set_future_handle(handle);
    return Call(std::move(request));
  }

  testing::FakeCluster cluster_;
  HandlerTable handlers_;
  SessionTable table_;
  Sink sink_;
  std::shared_ptr<ClientSession> session_;
  uint64_t op_id_ = 0;
};

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
  EXPECT_EQ(init.all_devices(2).attributes().attributes().at("island").int64_value(), 0);
  const auto& attributes = init.client_attributes().attributes();
  EXPECT_TRUE(attributes.at("serialize_with_sdy").bool_value());
  EXPECT_FALSE(attributes.at("supports_executable_serialization").bool_value());
  EXPECT_THAT(attributes.at("stablehlo_current_version").int64_list_value().elements(), ElementsAre(1, 13, 7));
  EXPECT_TRUE(table_.Find(init.session_id()).ok());
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
  EXPECT_EQ(fake().arrays[1].data.view(), "0123456789abcdef");
  EXPECT_EQ(fake().arrays[2].data.view(), "fedcba9876543210");
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
  EXPECT_THAT(Call(disassemble).disassemble_into_single_device_arrays_response().array_handles(), ElementsAre(kServerHandle));
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

std::string OptionsWithDevices(std::vector<std::vector<int64_t>> devices_by_partition) {
  xla::ifrt::XlaCompileOptionsProto options;
  auto& build = *options.mutable_compile_options()->mutable_executable_build_options();
  build.set_num_replicas(1);
  build.set_num_partitions(static_cast<int64_t>(devices_by_partition.size()));
  auto& assignment = *build.mutable_device_assignment();
  assignment.set_replica_count(static_cast<int>(devices_by_partition[0].size()));
  assignment.set_computation_count(static_cast<int>(devices_by_partition.size()));
  for (const auto& devices : devices_by_partition) {
    assignment.add_computation_devices()->mutable_replica_device_ids()->Assign(devices.begin(), devices.end());
  }
  return options.SerializeAsString();
}

TEST_P(ClientSessionTest, CompileTakesTheDevicesOutOfTheOptions) {
  Init();
  const auto response = Compile("xla::ifrt::XlaProgram", "stablehlo", OptionsWithDevices({{3, 0}, {2, 1}}));
  const auto& compiled = response.compile_response();
  EXPECT_EQ(compiled.name(), "jit_f");
  EXPECT_THAT(compiled.device_ids(), ElementsAre(3, 2, 0, 1));
  EXPECT_THAT(compiled.addressable_device_ids(), ElementsAre(3, 2, 0, 1));
  EXPECT_EQ(compiled.fingerprint_value(), "fingerprint");
  EXPECT_EQ(fake().last_compile.format, "mlir");
  EXPECT_EQ(fake().last_compile.num_replicas, 2);
  EXPECT_EQ(fake().last_compile.num_partitions, 2);
  xla::CompileOptionsProto options;
  ASSERT_TRUE(options.ParseFromString(fake().last_compile.options));
  EXPECT_FALSE(options.executable_build_options().has_device_assignment());
  EXPECT_EQ(CodeOf(CheckFuture(compiled.ready_future_handle())), 0);
}

TEST_P(ClientSessionTest, CompileWithoutDevicesLeavesThemToTheController) {
  Init();
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo")), 0);
  EXPECT_THAT(fake().last_compile.devices, IsEmpty());
  EXPECT_EQ(fake().last_compile.num_partitions, 1);
}

TEST_P(ClientSessionTest, CompileKeepsOptionsItDoesNotKnow) {
  Init();
  xla::ifrt::XlaCompileOptionsProto options;
  auto& compile = *options.mutable_compile_options();
  compile.GetReflection()->MutableUnknownFields(&compile)->AddLengthDelimited(7, "override");
  Compile("xla::ifrt::XlaProgram", "stablehlo", options.SerializeAsString());
  EXPECT_THAT(fake().last_compile.options, HasSubstr("override"));
}

TEST_P(ClientSessionTest, CompileRefusesWhatItCannotRun) {
  Init();
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "broken")), 3);
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo", "\xff\xff")), 3);
  const auto colocated = Compile("xla::ifrt::CustomCallProgram", "pickle");
  EXPECT_EQ(CodeOf(colocated), 12);
  EXPECT_THAT(TextOf(colocated), HasSubstr("PjRtCompiler requires an HloProgram"));
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::IfrtIRProgram", "mlir")), 12);
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::NextYearsProgram", "")), 12);
  auto ragged = OptionsWithDevices({{0, 1}, {2}});
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo", ragged)), 3);
  IfrtRequest callback;
  callback.mutable_compile_request()->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
  callback.mutable_compile_request()->add_host_callbacks("callback");
  EXPECT_EQ(CodeOf(Call(std::move(callback))), 12);
}

TEST_P(ClientSessionTest, MetadataSaysWhatIsKnownOfAnExecutable) {
  Init();
  IfrtRequest request;
  request.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(CompileJit());
  const auto response = Call(std::move(request));
  const auto& metadata = response.loaded_executable_metadata_response();
  EXPECT_FALSE(metadata.has_parameter_shardings());
  EXPECT_THAT(metadata.parameter_layouts_list().layouts(0).minor_to_major(), ElementsAre(0));
  EXPECT_EQ(metadata.output_layouts_list().layouts_size(), 1);
  EXPECT_THAT(metadata.output_memory_kinds().memory_kind_lists(0).memory_kinds(), ElementsAre("device"));
  EXPECT_THAT(metadata.donated_input_indices().donated_input_indices(), ElementsAre(0));
  EXPECT_EQ(metadata.compiled_memory_stats_error().code(), 12);
}

TEST_P(ClientSessionTest, QuestionsAboutAnExecutable) {
  Init();
  const uint64_t handle = CompileJit();
  IfrtRequest costs;
  costs.mutable_loaded_executable_cost_analysis_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(Call(std::move(costs)).loaded_executable_cost_analysis_response().attributes().attributes().at("flops").float_value(), 8);
  IfrtRequest text;
  text.mutable_loaded_executable_human_readable_program_text_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(Call(std::move(text)).loaded_executable_human_readable_program_text_response().human_readable_program_text(), "HloModule f");
  IfrtRequest is_deleted;
  is_deleted.mutable_loaded_executable_is_deleted_request()->set_loaded_executable_handle(handle);
  EXPECT_FALSE(Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  IfrtRequest remove;
  remove.mutable_loaded_executable_delete_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(CodeOf(CheckFuture(Call(std::move(remove)).loaded_executable_delete_response().future_handle())), 0);
  EXPECT_TRUE(Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  EXPECT_EQ(CodeOf(Execute(handle, {}, {50})), 9);
  EXPECT_EQ(CodeOf(CheckReady({50})), 9);
  IfrtRequest destruct;
  destruct.mutable_loaded_executable_destruct_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(CodeOf(Call(destruct)), 0);
  EXPECT_EQ(CodeOf(Call(destruct)), 5);
  EXPECT_EQ(CodeOf(Call(is_deleted)), 5);
  IfrtRequest mpmd;
  mpmd.mutable_loaded_executable_mpmd_metadata_request()->set_mpmd_loaded_executable_handle(handle);
  EXPECT_EQ(CodeOf(Call(std::move(mpmd))), 12);
}

TEST_P(ClientSessionTest, TheFirstExecuteAnswersWithSpecsLaterOnesWithNothing) {
  Init();
  MakeArray(1);
  const uint64_t executable = CompileJit();
  const auto first = Execute(executable, {1}, {});
  const auto& outputs = first.loaded_executable_execute_response().outputs();
  ASSERT_EQ(outputs.size(), 1);
  EXPECT_GE(outputs[0].array_handle(), kServerHandle);
  EXPECT_THAT(outputs[0].shape().dims(), ElementsAre(4));
  EXPECT_EQ(outputs[0].dtype().kind(), xla::ifrt::DTypeProto::KIND_F32);
  EXPECT_EQ(outputs[0].sharding().serialized_sharding().type_name(), "xla::ifrt::SingleDeviceSharding");
  EXPECT_EQ(fake().last_execute.launch_id, 7);
  EXPECT_EQ(fake().last_execute.status, 0);
  const auto later = Execute(executable, {1}, {2});
  EXPECT_EQ(later.loaded_executable_execute_response().outputs_size(), 0);
  EXPECT_EQ(CodeOf(CheckReady({2})), 0);
}

TEST_P(ClientSessionTest, TheStatusOfARunIsFetchedOnce) {
  Init();
  MakeArray(1);
  const uint64_t executable = CompileJit();
  Execute(executable, {1}, {2}, 30);
  if (GetParam() < protocol::kFetchExecuteResult) {
    EXPECT_EQ(CodeOf(CheckFuture(30)), 0);
    EXPECT_EQ(CodeOf(CheckFuture(30)), 5);
    return;
  }
  IfrtRequest fetch;
  fetch.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(30);
  EXPECT_EQ(Call(fetch).loaded_executable_fetch_execute_result_response().device_time().at("cpu"), 2.5);
  EXPECT_EQ(CodeOf(Call(fetch)), 5);
}

TEST_P(ClientSessionTest, AFailedRunPoisonsItsResults) {
  Init();
  const uint64_t executable = CompileJit();
  EXPECT_EQ(CodeOf(Execute(executable, {77}, {2}, 31)), 5);
  EXPECT_EQ(CodeOf(CheckReady({2})), 5);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 5);
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

TEST_P(ClientSessionTest, ReshardProgramsCopyTheirArguments) {
  Init();
  MakeArray(1);
  const auto refused = Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program {\"printTextRequest\": {}}");
  EXPECT_THAT(TextOf(refused), HasSubstr("Bad PluginProgram"));
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program {")), 3);
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::PluginProgram", "no prefix")), 3);
  const std::string sharding = R"({"devices": {"device_ids": [2]}, "xla_hlo_sharding": ""})";
  const auto compiled = Compile("xla::ifrt::PluginProgram",
                                absl::StrCat("__serialized_plugin_program {\"reshardRequest\": {\"donateInput\": false, \"inSharding\": [", sharding,
                                             "], \"outSharding\": [", sharding, "]}}"));
  ASSERT_EQ(CodeOf(compiled), 0) << TextOf(compiled);
  EXPECT_THAT(compiled.compile_response().addressable_device_ids(), ElementsAre(2));
  const uint64_t executable = compiled.compile_response().loaded_executable_handle();
  const auto first = Execute(executable, {1}, {}, 40);
  ASSERT_EQ(first.loaded_executable_execute_response().outputs_size(), 1) << first.ShortDebugString();
  EXPECT_EQ(CodeOf(CheckFuture(40)), 0);
  EXPECT_EQ(CodeOf(Execute(executable, {1}, {41})), 0);
  EXPECT_EQ(fake().arrays[41].spec.sharding.devices()[0], DeviceId(2));
  EXPECT_EQ(CodeOf(Execute(executable, {}, {42}, 43)), 3);
  EXPECT_EQ(CodeOf(CheckReady({42})), 3);
  EXPECT_EQ(CodeOf(CheckFuture(43)), 3);
  IfrtRequest metadata;
  metadata.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(executable);
  EXPECT_TRUE(Call(std::move(metadata)).loaded_executable_metadata_response().has_donated_input_indices());
  IfrtRequest destruct;
  destruct.mutable_loaded_executable_destruct_request()->set_loaded_executable_handle(executable);
  EXPECT_EQ(CodeOf(Call(std::move(destruct))), 0);
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
