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
           {WithDebugOption(109, "dump"), "xla_dump_to"},
           {WithDebugOption(150, "code.ll"), "xla_gpu_llvm_ir_file"},
           {WithDebugOption(599, "some/where"), "number 599"},
           {WithDebugOption(500, Entry("info-output-file", "x")), "info-output-file"},
           {WithOverride("xla_dump_to", "dump"), "xla_dump_to"},
           {WithOverride("xla_gpu_cuda_data_dir", "/home/ada/cuda"), "xla_gpu_cuda_data_dir"},
           {WithOverride("xla_of_tomorrow", "some/where"), "xla_of_tomorrow"},
           {WithOverride("xla_backend_extra_options", "xla_cpu_optimize_for_size,info-output-file=x"), "info-output-file=x"}}) {
    const absl::Status status = OptionsOfStranger(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << name << ": " << status;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  }
  EXPECT_EQ(OptionsOfStranger("\xff").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CompileOptionsTest, AStrangerSetsAllOthers) {
  for (const std::string& options :
       {std::string(), WithDebugOption(109, ""), WithDebugOption(61, "./cuda_sdk_lib"), WithDebugOption(451, "inf"),
        WithDebugOption(258, "\x05\x02\x08"), WithDebugOption(357, Entry("rtt_us", "-1")),
        WithDebugOption(500, Entry("xla_cpu_optimize_for_size", "")), WithOverride("xla_cpu_enable_fast_math", "true"),
        WithOverride("xla_dump_to", ""), WithOverride("xla_backend_extra_options", "xla_cpu_optimize_for_size=true")}) {
    const absl::StatusOr<std::string> taken = OptionsOfStranger(options);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(*taken, options);
  }
}

TEST(CompileOptionsTest, AStrangersFolderOfCudaStaysOnItsMachine) {
  const std::string other = Field(444, "as it came");
  const auto with = [&](const std::string& folder) { return Field(3, Field(3, Field(61, folder) + other)); };
  absl::StatusOr<std::string> taken = OptionsOfStranger(with("/home/ada/cuda"));
  ASSERT_TRUE(taken.ok()) << taken.status();
  xla::CompileOptionsProto expected;
  ASSERT_TRUE(expected.ParseFromString(with("./cuda_sdk_lib")));
  EXPECT_EQ(*taken, CanonicalCompileOptions(expected));
}

}  // namespace
}  // namespace pw::program
