#include "pathways/program/compile_options.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pw::program {
namespace {

// Returns a length-delimited field, with a field number below 2048.
std::string Field(int number, const std::string& bytes) {
  std::string out;
  const int tag = number << 3 | 2;
  out += static_cast<char>((tag & 0x7f) | 0x80);
  out += static_cast<char>(tag >> 7);
  out += static_cast<char>(bytes.size());
  return out + bytes;
}

std::string Entry(const std::string& key, const std::string& value) { return Field(1, key) + Field(2, value); }

xla::CompileOptionsProto Parse(const std::string& debug, const std::string& overrides) {
  xla::CompileOptionsProto options;
  EXPECT_TRUE(options.ParseFromString(Field(3, Field(3, debug)) + overrides));
  return options;
}

TEST(CompileOptionsTest, TheOrderOfMapEntriesDoesNotMatter) {
  const std::string a = Entry("rtt_us", "1"), b = Entry("nic_speed_gbps", "2"), c = Entry("gpus_per_node", "8");
  const std::string x = Entry("xla_x", Field(1, "y")), y = Entry("xla_a", Field(1, "b"));
  for (int map : {357, 500}) {
    const std::string forward = Field(map, a) + Field(map, b) + Field(map, c),
                      backward = Field(map, c) + Field(map, b) + Field(map, a);
    EXPECT_EQ(CanonicalCompileOptions(Parse(forward, Field(7, x) + Field(7, y))),
              CanonicalCompileOptions(Parse(backward, Field(7, y) + Field(7, x))));
    EXPECT_NE(CanonicalCompileOptions(Parse(forward, "")), CanonicalCompileOptions(Parse(Field(map, a) + Field(map, b), "")));
  }
}

TEST(CompileOptionsTest, WhatIsNotDeclaredPassesThrough) {
  const std::string unknown = Field(444, "as it came");
  const std::string bytes = CanonicalCompileOptions(Parse(unknown + Field(500, Entry("k", "v")), Field(1000, "target")));
  EXPECT_NE(bytes.find(unknown), std::string::npos);
  EXPECT_NE(bytes.find(Field(1000, "target")), std::string::npos);
}

TEST(CompileOptionsTest, DevicesAreLeftOut) {
  xla::CompileOptionsProto options;
  options.mutable_executable_build_options()->set_num_replicas(2);
  const std::string without = CanonicalCompileOptions(options);
  options.mutable_executable_build_options()->mutable_device_assignment()->set_replica_count(2);
  EXPECT_EQ(CanonicalCompileOptions(options), without);
}

TEST(CompileOptionsTest, DevicesAreReplicaMajor) {
  xla::ExecutableBuildOptionsProto options;
  EXPECT_EQ(DevicesOf(options)->num_replicas, 1);
  EXPECT_TRUE(DevicesOf(options)->devices.empty());
  xla::DeviceAssignmentProto& assignment = *options.mutable_device_assignment();
  assignment.set_replica_count(2);
  assignment.set_computation_count(2);
  for (int first : {4, 5}) {
    auto& partition = *assignment.add_computation_devices();
    partition.add_replica_device_ids(first);
    partition.add_replica_device_ids(first + 2);
  }
  EXPECT_EQ(DevicesOf(options)->devices, (std::vector<DeviceId>{DeviceId(4), DeviceId(5), DeviceId(6), DeviceId(7)}));
  assignment.mutable_computation_devices(1)->mutable_replica_device_ids()->RemoveLast();
  EXPECT_EQ(DevicesOf(options).status().code(), absl::StatusCode::kInvalidArgument);
  assignment.set_replica_count(1 << 30);
  EXPECT_EQ(DevicesOf(options).status().code(), absl::StatusCode::kInvalidArgument);
}

std::string WithDebugOption(int number, const std::string& text) { return Field(3, Field(3, Field(number, text))); }

std::string WithOverride(const std::string& name, const std::string& text) { return Field(7, Entry(name, Field(1, text))); }

TEST(CompileOptionsTest, AStrangerSetsNoOptionThatNamesAFile) {
  for (const auto& [options, name] : std::vector<std::pair<std::string, std::string>>{
           {WithDebugOption(500, Entry("info-output-file", "x")), "info-output-file"},
           {WithOverride("xla_dump_to", "dump"), "xla_dump_to"},
           {WithOverride("xla_gpu_cuda_data_dir", "/home/ada/cuda"), "xla_gpu_cuda_data_dir"},
           {WithOverride("xla_of_tomorrow", "some/where"), "xla_of_tomorrow"},
           {WithOverride("xla_of_tomorrow", "somewhere"), "xla_of_tomorrow"},
           {WithOverride("xla_gpu_asm_extra_flags", "--output-file=x"), "xla_gpu_asm_extra_flags"},
           {WithDebugOption(500, Entry("xla_cpu_dump", "some/where")), "xla_cpu_dump"},
           {WithOverride("xla_backend_extra_options", "xla_cpu_optimize_for_size,info-output-file=x"), "info-output-file=x"}}) {
    const absl::Status status = OptionsOfStranger(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name << ": " << status;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  }
  EXPECT_EQ(OptionsOfStranger("\xff").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CompileOptionsTest, AStrangerDoesNotEndTheProcessOfEverybody) {
  for (const char* name : {"xla_gpu_crash_on_verification_failures", "xla_gpu_executable_terminate_timeout_seconds"}) {
    for (const std::string& value : {Field(1, "1"), std::string("\x10\x01")}) {
      const absl::Status status = OptionsOfStranger(Field(7, Entry(name, value))).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    }
  }
  xla::CompileOptionsProto sent, kept;
  xla::DebugOptions& debug = *sent.mutable_executable_build_options()->mutable_debug_options();
  debug.set_xla_gpu_crash_on_verification_failures(true);
  debug.set_xla_gpu_nccl_termination_timeout_seconds(1);
  debug.set_xla_gpu_executable_terminate_timeout_seconds(1);
  ASSERT_TRUE(kept.ParseFromString(*OptionsOfStranger(sent.SerializeAsString())));
  EXPECT_FALSE(kept.executable_build_options().debug_options().xla_gpu_crash_on_verification_failures());
  EXPECT_EQ(kept.executable_build_options().debug_options().xla_gpu_nccl_termination_timeout_seconds(), -1);
  EXPECT_EQ(kept.executable_build_options().debug_options().xla_gpu_executable_terminate_timeout_seconds(), 30);
}

TEST(CompileOptionsTest, AStrangerSetsAllOthers) {
  for (const std::string& options :
       {std::string(), WithDebugOption(109, ""), WithDebugOption(61, "./cuda_sdk_lib"), WithDebugOption(451, "inf"),
        WithDebugOption(258, "\x05\x02\x08"), WithDebugOption(357, Entry("rtt_us", "-1")),
        WithDebugOption(500, Entry("xla_cpu_optimize_for_size", "")), WithOverride("xla_cpu_enable_fast_math", "true"),
        WithDebugOption(110, ".*/fusion"), WithOverride("xla_gpu_enable_command_buffer", "FUSION,CUBLAS"),
        WithOverride("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_DOT"), WithOverride("xla_tpu_limit", "65536"),
        WithOverride("xla_dump_to", ""), WithOverride("xla_backend_extra_options", "xla_cpu_optimize_for_size=true")}) {
    const absl::StatusOr<std::string> taken = OptionsOfStranger(options);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(*taken, options);
  }
}

TEST(CompileOptionsTest, FilesInTheEnvironmentOfAStrangerStayOnItsMachine) {
  const std::string other = Field(444, "-1.5");
  const auto with = [&](const std::string& files) { return Field(3, Field(3, files + other)); };
  const std::string cuda = "./cuda_sdk_lib";
  for (const auto& [sent, kept] : std::vector<std::pair<std::string, std::string>>{{Field(61, "/home/ada/cuda"), Field(61, cuda)},
                                                                                   {Field(109, "/home/ada/dump"), ""},
                                                                                   {Field(150, "code.ll"), ""},
                                                                                   {Field(599, "some/where"), ""},
                                                                                   {Field(599, "somewhere"), ""}}) {
    const absl::StatusOr<std::string> taken = OptionsOfStranger(with(sent));
    ASSERT_TRUE(taken.ok()) << taken.status();
    xla::CompileOptionsProto expected;
    ASSERT_TRUE(expected.ParseFromString(with(kept)));
    EXPECT_EQ(*taken, CanonicalCompileOptions(expected));
  }
}

}  // namespace
}  // namespace pw::program
