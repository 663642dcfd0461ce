// A small host of this plugin for tests (c_table/testing.h): a client with four devices, its arrays and programs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/c_table/testing.h"

namespace pw::pjrt_cpu::testing {

using c_table::testing::Api;
using c_table::testing::Await;
using c_table::testing::Check;
using c_table::testing::Destroy;
using c_table::testing::IsReady;
using c_table::testing::Outcome;
using c_table::testing::Ready;
using c_table::testing::Take;

constexpr char kLimit[] = "67108864";  // bytes of memory of the client: 64 MiB

// One client with four devices for all tests of the process.
struct Host {
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Memory*> memories;  // the default one of each device

  static Host& Get() {
    static Host host;
    return host;
  }

 private:
  Host() {
    setenv("PJRT_CPU_MEMORY_LIMIT_BYTES", kLimit, /*overwrite=*/1);
    PJRT_NamedValue count{PJRT_NamedValue_STRUCT_SIZE};
    count.name = "cpu_device_count";
    count.name_size = 16;
    count.type = PJRT_NamedValue_kInt64;
    count.int64_value = 4;
    count.value_size = 1;
    PW_ARGS(PJRT_Client_Create_Args, create);
    create.create_options = &count;
    create.num_options = 1;
    Check(Api()->PJRT_Client_Create(&create));
    client = create.client;
    PW_ARGS(PJRT_Client_AddressableDevices_Args, list);
    list.client = client;
    Check(Api()->PJRT_Client_AddressableDevices(&list));
    devices.assign(list.addressable_devices, list.addressable_devices + list.num_addressable_devices);
    for (PJRT_Device* device : devices) {
      PW_ARGS(PJRT_Device_DefaultMemory_Args, memory);
      memory.device = device;
      Check(Api()->PJRT_Device_DefaultMemory(&memory));
      memories.push_back(memory.memory);
    }
  }
};

inline PJRT_Buffer* Put(const std::vector<float>& values, int device = 0) {
  const int64_t dim = static_cast<int64_t>(values.size());
  PW_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = Host::Get().client;
  args.data = values.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &dim;
  args.num_dims = 1;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = Host::Get().devices[device];
  Check(Api()->PJRT_Client_BufferFromHostBuffer(&args));
  Await(args.done_with_host_buffer);
  return args.buffer;
}

inline std::vector<float> Fetch(PJRT_Buffer* buffer) {
  PW_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer;
  Check(Api()->PJRT_Buffer_ToHostBuffer(&args));
  std::vector<float> result(args.dst_size / sizeof(float));
  args.dst = result.data();
  Check(Api()->PJRT_Buffer_ToHostBuffer(&args));
  if (const Outcome outcome = Await(args.event); !outcome.ok()) throw std::runtime_error(outcome.message);
  return result;
}

// CompileOptionsProto: executable_build_options {device_ordinal: -1, num_replicas: N, num_partitions: 1}.
inline std::string CompileOptions(char replicas) {
  std::string build("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01", 15);
  build[12] = replicas;
  return std::string("\x1a\x0f", 2) + build;
}

inline PJRT_LoadedExecutable* Compile(std::string text, char replicas = 1) {
  PJRT_Program program{PJRT_Program_STRUCT_SIZE};
  program.code = text.data();
  program.code_size = text.size();
  program.format = "mlir";
  program.format_size = 4;
  const std::string options = CompileOptions(replicas);
  PW_ARGS(PJRT_Client_Compile_Args, args);
  args.client = Host::Get().client;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  Check(Api()->PJRT_Client_Compile(&args));
  return args.executable;
}

// Runs on all devices of the program, or on `only`; one result per device.
inline std::vector<PJRT_Buffer*> Launch(PJRT_LoadedExecutable* executable, std::vector<std::vector<PJRT_Buffer*>> arguments,
                                        PJRT_Device* only = nullptr, int launch_id = 0, PJRT_ExecuteContext* context = nullptr) {
  std::vector<PJRT_Buffer* const*> lists;
  for (const auto& list : arguments) lists.push_back(list.data());
  std::vector<PJRT_Buffer*> results(arguments.size());
  std::vector<PJRT_Buffer**> outputs;
  for (PJRT_Buffer*& result : results) outputs.push_back(&result);
  PW_ARGS(PJRT_ExecuteOptions, options);
  options.launch_id = launch_id;
  options.context = context;
  PW_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = executable;
  args.options = &options;
  args.argument_lists = lists.data();
  args.num_devices = arguments.size();
  args.num_args = arguments.front().size();
  args.output_lists = outputs.data();
  args.execute_device = only;
  Check(Api()->PJRT_LoadedExecutable_Execute(&args));
  return results;
}

inline const char* kDouble = R"(module {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// Returns the program for arrays of `size` elements instead of four.
inline std::string OfSize(std::string program, int size) {
  const std::string four = "tensor<4xf32>", wanted = "tensor<" + std::to_string(size) + "xf32>";
  for (size_t at = 0; (at = program.find(four, at)) != std::string::npos; at += wanted.size())
    program.replace(at, four.size(), wanted);
  return program;
}

inline const char* kSumOverFour = R"(module attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// A sum over all partitions (there is only one), and an addition.
inline const char* kSumOverOne = R"(module attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.constant dense<1.0> : tensor<4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
})";

}  // namespace pw::pjrt_cpu::testing
