// Counts the costs of a call to a cluster in the program's process: frames between controller and host, and allocations.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "plugins/c_table/testing.h"
#include "xla/compile_options.pb.h"

namespace {
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;
}  // namespace

// Replaces the process's operators, from which the library takes its memory.
__attribute__((noinline)) void* operator new(size_t size) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = malloc(size)) return memory;
  abort();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace pw::pathways_pjrt {
namespace {

using c_table::testing::Api;
using c_table::testing::Await;
using c_table::testing::Check;
using c_table::testing::Destroy;
using c_table::testing::Ready;

constexpr char kIncrement[] = R"(
module @increment {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.add %x, %one : tensor<f32>
    return %0 : tensor<f32>
  }
})";

// A cluster of one device in this process.
class OwnCluster : public ::testing::Test {
 protected:
  OwnCluster() {
    const std::string flags = absl::StrCat("--plugin=", PW_DEVICE_PLUGIN, "\n--devices=1");
    PJRT_NamedValue local{PJRT_NamedValue_STRUCT_SIZE};
    local.name = "local";
    local.name_size = 5;
    local.type = PJRT_NamedValue_kString;
    local.string_value = flags.data();
    local.value_size = flags.size();
    PW_ARGS(PJRT_Client_Create_Args, create);
    create.create_options = &local;
    create.num_options = 1;
    Check(Api()->PJRT_Client_Create(&create));
    client_ = create.client;
    PW_ARGS(PJRT_Client_AddressableDevices_Args, list);
    list.client = client_;
    Check(Api()->PJRT_Client_AddressableDevices(&list));
    device_ = list.addressable_devices[0];
    Compile();
  }
  ~OwnCluster() override {
    PW_ARGS(PJRT_LoadedExecutable_Destroy_Args, executable);
    executable.executable = increment_;
    Check(Api()->PJRT_LoadedExecutable_Destroy(&executable));
    PW_ARGS(PJRT_Client_Destroy_Args, args);
    args.client = client_;
    Check(Api()->PJRT_Client_Destroy(&args));
  }

  void Compile() {
    xla::CompileOptionsProto options;
    options.mutable_executable_build_options()->set_num_replicas(1);
    options.mutable_executable_build_options()->set_num_partitions(1);
    const std::string bytes = options.SerializeAsString();
    std::string text = kIncrement;
    PJRT_Program program{PJRT_Program_STRUCT_SIZE};
    program.code = text.data();
    program.code_size = text.size();
    program.format = "mlir";
    program.format_size = 4;
    PW_ARGS(PJRT_Client_Compile_Args, args);
    args.client = client_;
    args.program = &program;
    args.compile_options = bytes.data();
    args.compile_options_size = bytes.size();
    Check(Api()->PJRT_Client_Compile(&args));
    increment_ = args.executable;
  }

  PJRT_Buffer* Put(float value) const {
    PW_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
    args.client = client_;
    args.data = &value;
    args.type = PJRT_Buffer_Type_F32;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = device_;
    Check(Api()->PJRT_Client_BufferFromHostBuffer(&args));
    Await(args.done_with_host_buffer);
    return args.buffer;
  }

  // Calls the program, as jax does, and drops the argument.
  PJRT_Buffer* Next(PJRT_Buffer* x) const {
    PJRT_Buffer* result = nullptr;
    PJRT_Buffer* const* arguments = &x;
    PJRT_Buffer** results = &result;
    PJRT_Event* end = nullptr;
    PW_ARGS(PJRT_ExecuteOptions, options);
    PW_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
    args.executable = increment_;
    args.options = &options;
    args.argument_lists = &arguments;
    args.num_devices = 1;
    args.num_args = 1;
    args.output_lists = &results;
    args.device_complete_events = &end;
    Check(Api()->PJRT_LoadedExecutable_Execute(&args));
    Await(end);
    Ready(result);
    Destroy(x);
    return result;
  }

  static float Read(PJRT_Buffer* buffer) {
    float value = 0;
    PW_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
    args.src = buffer;
    args.dst = &value;
    args.dst_size = sizeof(value);
    Check(Api()->PJRT_Buffer_ToHostBuffer(&args));
    Await(args.event);
    return value;
  }

  PJRT_Client* client_ = nullptr;
  PJRT_Device* device_ = nullptr;
  PJRT_LoadedExecutable* increment_ = nullptr;
};

// There were 82 of our own and 17 of the device runtime's when this was written. Each costs more than most functions of the call.
TEST_F(OwnCluster, ACallAllocatesLittle) {
  constexpr int kCalls = 200;
  PJRT_Buffer* x = Put(0);
  for (int i = 0; i < kCalls; ++i) x = Next(x);
  allocations = 0;
  counting = true;
  for (int i = 0; i < kCalls; ++i) x = Next(x);
  counting = false;
  EXPECT_LT(allocations / kCalls, 115);
  EXPECT_EQ(Read(x), 2 * kCalls);
  Destroy(x);
}

}  // namespace
}  // namespace pw::pathways_pjrt
