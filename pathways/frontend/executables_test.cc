// Executables: every request kind, at every protocol version, against a cluster without workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/frontend/testing/session_fixture.h"

namespace pw::frontend {
namespace {

using testing::ClientSessionTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ExecutableTest : public ClientSessionTest {};

INSTANTIATE_TEST_SUITE_P(Versions, ExecutableTest, ::testing::Range(protocol::kOldest, protocol::kNewest + 1));

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

TEST_P(ExecutableTest, CompileTakesTheDevicesOutOfTheOptions) {
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

TEST_P(ExecutableTest, CompileWithoutDevicesLeavesThemToTheController) {
  Init();
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo")), 0);
  EXPECT_THAT(fake().last_compile.devices, IsEmpty());
  EXPECT_EQ(fake().last_compile.num_partitions, 1);
}

TEST_P(ExecutableTest, CompileKeepsOptionsItDoesNotKnow) {
  Init();
  xla::ifrt::XlaCompileOptionsProto options;
  auto& compile = *options.mutable_compile_options();
  compile.GetReflection()->MutableUnknownFields(&compile)->AddLengthDelimited(1000, "override");
  Compile("xla::ifrt::XlaProgram", "stablehlo", options.SerializeAsString());
  EXPECT_THAT(fake().last_compile.options, HasSubstr("override"));
}

TEST_P(ExecutableTest, CompileReadsOptionsOfNewerClientsAndRefusesWhatItCannotDo) {
  Init();
  xla::ifrt::XlaCompileOptionsProto options;
  options.set_version_number(4);  // jaxlib 0.12
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo", options.SerializeAsString())), 0);
  options.add_outputs_bundle_slice_sizes(2);
  const auto bundles = Compile("xla::ifrt::XlaProgram", "stablehlo", options.SerializeAsString());
  EXPECT_EQ(CodeOf(bundles), 12);
  EXPECT_THAT(TextOf(bundles), HasSubstr("outputs_bundle_slice_sizes"));
  options.clear_outputs_bundle_slice_sizes();
  options.set_version_number(5);
  const auto later = Compile("xla::ifrt::XlaProgram", "stablehlo", options.SerializeAsString());
  EXPECT_EQ(CodeOf(later), 12);
  EXPECT_THAT(TextOf(later), HasSubstr("compile options up to version 4"));
}

TEST_P(ExecutableTest, CompileRefusesWhatItCannotRun) {
  Init();
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "broken")), 3);
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo", "\xff\xff")), 3);
  const auto mpmd = Compile("xla::ifrt::IfrtIRProgram", "mlir");
  EXPECT_EQ(CodeOf(mpmd), 12);
  EXPECT_THAT(TextOf(mpmd), HasSubstr("@pw.program")) << "the remedy";
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::NextYearsProgram", "")), 12);
  auto ragged = OptionsWithDevices({{0, 1}, {2}});
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::XlaProgram", "stablehlo", ragged)), 3);
  IfrtRequest callback;
  callback.mutable_compile_request()->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
  callback.mutable_compile_request()->add_host_callbacks("callback");
  EXPECT_EQ(CodeOf(Call(std::move(callback))), 12);
}

TEST_P(ExecutableTest, CustomCallsArePythonFunctionsOrRefused) {
  Init();
  xla::ifrt::CustomCallProgramProto call;
  call.set_type("another");
  const auto other = Compile("xla::ifrt::CustomCallProgram", call.SerializeAsString());
  EXPECT_EQ(CodeOf(other), 12);
  EXPECT_THAT(TextOf(other), HasSubstr("'another'"));
  EXPECT_THAT(TextOf(other), Not(HasSubstr("PjRtCompiler requires an HloProgram"))) << "jax would run the function in the client";
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::CustomCallProgram", "pickle")), 3);
  call.set_type("jax_colocated_python_v0.0.1");
  const auto wrong_options = Compile("xla::ifrt::CustomCallProgram", call.SerializeAsString(), "options of a computation");
  EXPECT_EQ(CodeOf(wrong_options), 3);
  EXPECT_THAT(TextOf(wrong_options), HasSubstr("xla::ifrt::XlaCompileOptions"));
}

TEST_P(ExecutableTest, MetadataSaysWhatIsKnownOfAnExecutable) {
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

TEST_P(ExecutableTest, QuestionsAboutAnExecutable) {
  Init();
  const uint64_t handle = CompileJit();
  IfrtRequest costs;
  costs.mutable_loaded_executable_cost_analysis_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(Call(std::move(costs)).loaded_executable_cost_analysis_response().attributes().attributes().at("flops").float_value(),
            8);
  IfrtRequest text;
  text.mutable_loaded_executable_human_readable_program_text_request()->set_loaded_executable_handle(handle);
  EXPECT_EQ(Call(std::move(text)).loaded_executable_human_readable_program_text_response().human_readable_program_text(),
            "HloModule f");
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

TEST_P(ExecutableTest, TheFirstExecuteAnswersWithSpecsLaterOnesWithNothing) {
  Init();
  MakeFilledArray(1);
  const uint64_t executable = CompileJit();
  const auto first = Execute(executable, {1}, {});
  const auto& outputs = first.loaded_executable_execute_response().outputs();
  ASSERT_EQ(outputs.size(), 1);
  EXPECT_GE(outputs[0].array_handle(), controller::kFirstServerHandle);
  EXPECT_THAT(outputs[0].shape().dims(), ElementsAre(4));
  EXPECT_EQ(outputs[0].dtype().kind(), xla::ifrt::DTypeProto::KIND_F32);
  EXPECT_EQ(outputs[0].sharding().serialized_sharding().type_name(), "xla::ifrt::SingleDeviceSharding");
  EXPECT_EQ(fake().last_execute.launch_id, 7);
  EXPECT_EQ(fake().last_execute.status, 0);
  const auto later = Execute(executable, {1}, {2});
  EXPECT_EQ(later.loaded_executable_execute_response().outputs_size(), 0);
  EXPECT_EQ(CodeOf(CheckReady({2})), 0);
}

TEST_P(ExecutableTest, TheStatusOfARunIsFetchedOnce) {
  Init();
  MakeFilledArray(1);
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

TEST_P(ExecutableTest, AFailedRunPoisonsItsResults) {
  Init();
  const uint64_t executable = CompileJit();
  EXPECT_EQ(CodeOf(Execute(executable, {77}, {2}, 31)), 5);
  EXPECT_EQ(CodeOf(CheckReady({2})), 5);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 5);
}

TEST_P(ExecutableTest, ReshardProgramsCopyTheirArguments) {
  Init();
  MakeFilledArray(1);
  const auto refused = Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program {\"printTextRequest\": {}}");
  EXPECT_THAT(TextOf(refused), HasSubstr("Bad PluginProgram"));
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program {")), 3);
  EXPECT_EQ(CodeOf(Compile("xla::ifrt::PluginProgram", "no prefix")), 3);
  const std::string sharding = R"({"devices": {"device_ids": [2]}, "xla_hlo_sharding": ""})";
  const auto compiled =
      Compile("xla::ifrt::PluginProgram",
              absl::StrCat("__serialized_plugin_program {\"reshardRequest\": {\"donateInput\": false, \"inSharding\": [",
                           sharding, "], \"outSharding\": [", sharding, "]}}"));
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

}  // namespace
}  // namespace pw::frontend
