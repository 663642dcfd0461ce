// Tests the C API as a host other than jax uses it: the entries that jax does not call, and their contracts.
#include "plugins/pjrt_cpu/c_api_testing.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "xla/ffi/api/ffi.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"
#include "xla/pjrt/c/pjrt_c_api_memory_descriptions_extension.h"

namespace pw::pjrt_cpu::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const int64_t kFour[] = {4};

template <typename Extension>
const Extension* Find(PJRT_Extension_Type type) {
  for (PJRT_Extension_Base* e = Api()->extension_start; e != nullptr; e = e->next) {
    if (e->type == type) return reinterpret_cast<const Extension*>(e);
  }
  return nullptr;
}

TEST(Table, HasEveryEntryOfItsVersion) {
  EXPECT_EQ(Api()->struct_size, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Event_Set));
  EXPECT_EQ(Api()->pjrt_api_version.minor_version, 90);
  const auto* first = reinterpret_cast<void* const*>(&Api()->PJRT_Error_Destroy);
  const auto* last = reinterpret_cast<void* const*>(&Api()->PJRT_Event_Set);
  for (const auto* entry = first; entry <= last; ++entry) EXPECT_NE(*entry, nullptr) << "entry " << entry - first;
}

TEST(Table, WhatCannotWorkSaysSo) {
  PW_ARGS(PJRT_CopyToDeviceStream_TotalBytes_Args, args);
  EXPECT_EQ(Take(Api()->PJRT_CopyToDeviceStream_TotalBytes(&args)).code, PJRT_Error_Code_UNIMPLEMENTED);
}

TEST(Events, AreSetOnceAndCallBack) {
  PW_ARGS(PJRT_Event_Create_Args, create);
  Check(Api()->PJRT_Event_Create(&create));
  std::string seen;
  PW_ARGS(PJRT_Event_OnReady_Args, on_ready);
  on_ready.event = create.event;
  on_ready.user_arg = &seen;
  on_ready.callback = [](PJRT_Error* error, void* arg) { *static_cast<std::string*>(arg) = Take(error).message; };
  Check(Api()->PJRT_Event_OnReady(&on_ready));
  EXPECT_FALSE(IsReady(create.event));
  PW_ARGS(PJRT_Event_Set_Args, set);
  set.event = create.event;
  set.error_code = PJRT_Error_Code_ABORTED;
  set.error_message = "lost";
  set.error_message_size = 4;
  Check(Api()->PJRT_Event_Set(&set));
  EXPECT_EQ(seen, "lost");
  EXPECT_EQ(Take(Api()->PJRT_Event_Set(&set)).code, PJRT_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(Await(create.event).code, PJRT_Error_Code_ABORTED);
}

TEST(Buffers, ZeroCopyUsesTheHostsMemoryUntilDestroyed) {
  auto* data = static_cast<float*>(std::aligned_alloc(64, 64));
  for (int i = 0; i < 4; ++i) data[i] = i;
  PW_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = Host::Get().client;
  args.data = data;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = kFour;
  args.num_dims = 1;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  args.memory = Host::Get().memories[0];
  Check(Api()->PJRT_Client_BufferFromHostBuffer(&args));
  PW_ARGS(PJRT_Buffer_UnsafePointer_Args, pointer);
  pointer.buffer = args.buffer;
  Check(Api()->PJRT_Buffer_UnsafePointer(&pointer));
  EXPECT_EQ(pointer.buffer_pointer, reinterpret_cast<uintptr_t>(data));
  EXPECT_FALSE(IsReady(args.done_with_host_buffer));
  EXPECT_THAT(Fetch(args.buffer), ElementsAre(0, 1, 2, 3));
  Destroy(args.buffer);
  EXPECT_TRUE(Await(args.done_with_host_buffer).ok());
  std::free(data);
}

TEST(Buffers, DeletedOnesAnswerWithAnError) {
  PJRT_Buffer* buffer = Put({1, 2, 3, 4});
  PW_ARGS(PJRT_Buffer_Delete_Args, remove);
  remove.buffer = buffer;
  Check(Api()->PJRT_Buffer_Delete(&remove));
  EXPECT_THROW(Fetch(buffer), std::runtime_error);
  EXPECT_FALSE(Ready(buffer).ok());
  PW_ARGS(PJRT_Buffer_CopyToDevice_Args, copy);
  copy.buffer = buffer;
  copy.dst_device = Host::Get().devices[1];
  EXPECT_THAT(Take(Api()->PJRT_Buffer_CopyToDevice(&copy)).message, HasSubstr("deleted"));
  Destroy(buffer);
}

TEST(Buffers, RawCopiesTakeARange) {
  PJRT_Buffer* buffer = Put({1, 2, 3, 4});
  float two[2];
  PW_ARGS(PJRT_Buffer_CopyRawToHost_Args, raw);
  raw.buffer = buffer;
  raw.dst = two;
  raw.offset = 4;
  raw.transfer_size = 8;
  Check(Api()->PJRT_Buffer_CopyRawToHost(&raw));
  EXPECT_TRUE(Await(raw.event).ok());
  EXPECT_THAT(two, ElementsAre(2, 3));
  PW_ARGS(PJRT_Buffer_CopyRawToHostFuture_Args, later);
  later.buffer = buffer;
  later.transfer_size = 8;
  Check(Api()->PJRT_Buffer_CopyRawToHostFuture(&later));
  EXPECT_FALSE(IsReady(later.event));
  PW_ARGS(PJRT_Buffer_CopyRawToHostFuture_Callback_Args, ready);
  ready.callback_data = later.callback_data;
  ready.dst = two;
  later.future_ready_callback(&ready);
  EXPECT_TRUE(Await(later.event).ok());
  EXPECT_THAT(two, ElementsAre(1, 2));
  Destroy(buffer);
}

TEST(Buffers, AreReadInTheOrderThatTheHostNames) {
  alignas(64) float rows[] = {1, 2, 3, 4, 5, 6};
  alignas(64) float columns[] = {1, 4, 2, 5, 3, 6};
  const int64_t dims[] = {2, 3};
  const int64_t by_row[] = {1, 0}, by_column[] = {0, 1};
  auto layout = [](const int64_t* minor_to_major) {
    PW_ARGS(PJRT_Buffer_MemoryLayout, layout);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major;
    layout.tiled.minor_to_major_size = 2;
    return layout;
  };
  for (const int64_t* on_device : {by_row, by_column}) {
    PJRT_Buffer_MemoryLayout device_layout = layout(on_device);
    PW_ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, view);
    view.client = Host::Get().client;
    view.device_buffer_ptr = on_device == by_row ? rows : columns;
    view.element_type = PJRT_Buffer_Type_F32;
    view.dims = dims;
    view.num_dims = 2;
    view.layout = &device_layout;
    view.memory = Host::Get().memories[0];
    Check(Api()->PJRT_Client_CreateViewOfDeviceBuffer(&view));
    for (const int64_t* on_host : {by_row, by_column}) {
      float seen[6];
      PJRT_Buffer_MemoryLayout host_layout = layout(on_host);
      PW_ARGS(PJRT_Buffer_ToHostBuffer_Args, read);
      read.src = view.buffer;
      read.host_layout = &host_layout;
      read.dst = seen;
      read.dst_size = sizeof(seen);
      Check(Api()->PJRT_Buffer_ToHostBuffer(&read));
      EXPECT_TRUE(Await(read.event).ok());
      EXPECT_THAT(seen, ElementsAreArray(on_host == by_row ? rows : columns, 6));
    }
    Destroy(view.buffer);
  }
}

TEST(Buffers, SmallContentsThatAreReadyAreReadAtOnce) {
  PJRT_Buffer* buffer = Put({1, 2, 3, 4});
  EXPECT_TRUE(Ready(buffer).ok());
  float seen[4];
  PW_ARGS(PJRT_Buffer_ToHostBuffer_Args, read);
  read.src = buffer;
  read.dst = seen;
  read.dst_size = sizeof(seen);
  Check(Api()->PJRT_Buffer_ToHostBuffer(&read));
  EXPECT_TRUE(IsReady(read.event));
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(Await(read.event).ok());
  Destroy(buffer);
}

TEST(Buffers, ErrorBuffersPoisonWhatDependsOnThem) {
  PW_ARGS(PJRT_Client_CreateErrorBuffer_Args, args);
  args.client = Host::Get().client;
  args.error_code = PJRT_Error_Code_DATA_LOSS;
  args.error_message = "host 3 is gone";
  args.error_message_size = 14;
  args.shape_dims = kFour;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = Host::Get().memories[0];
  Check(Api()->PJRT_Client_CreateErrorBuffer(&args));
  PJRT_LoadedExecutable* twice = Compile(kDouble);
  const std::vector<PJRT_Buffer*> out = Launch(twice, {{args.buffer}});
  const std::vector<PJRT_Buffer*> next = Launch(twice, {{out[0]}});
  EXPECT_THAT(Ready(out[0]).message, HasSubstr("host 3 is gone"));
  EXPECT_EQ(Ready(out[0]).code, PJRT_Error_Code_DATA_LOSS);
  EXPECT_THAT(Ready(next[0]).message, HasSubstr("host 3 is gone"));
  EXPECT_EQ(Ready(next[0]).code, PJRT_Error_Code_DATA_LOSS);
  Destroy(next[0]);
  Destroy(out[0]);
  Destroy(args.buffer);
}

TEST(Buffers, AnAliasIsFulfilledLater) {
  PJRT_LoadedExecutable* twice = Compile(kDouble);
  for (const bool good : {true, false}) {
    PW_ARGS(PJRT_Client_CreateAliasBuffer_Args, alias);
    alias.client = Host::Get().client;
    alias.memory = Host::Get().memories[0];
    alias.shape_dims = kFour;
    alias.shape_num_dims = 1;
    alias.shape_element_type = PJRT_Buffer_Type_F32;
    Check(Api()->PJRT_Client_CreateAliasBuffer(&alias));
    const std::vector<PJRT_Buffer*> out = Launch(twice, {{alias.alias_buffer}});
    PJRT_Buffer* real = Put({1, 2, 3, 4});
    PW_ARGS(PJRT_Client_FulfillAliasBuffer_Args, fulfill);
    fulfill.client = Host::Get().client;
    fulfill.buffer = real;
    fulfill.status_code = good ? PJRT_Error_Code_OK : PJRT_Error_Code_ABORTED;
    fulfill.error_message = "no";
    fulfill.error_message_size = 2;
    fulfill.fulfill_alias_buffer_cb = alias.fulfill_alias_buffer_cb;
    Check(Api()->PJRT_Client_FulfillAliasBuffer(&fulfill));
    if (good) {
      EXPECT_THAT(Fetch(out[0]), ElementsAre(2, 4, 6, 8));
    } else {
      EXPECT_EQ(Ready(out[0]).code, PJRT_Error_Code_ABORTED);
    }
    for (PJRT_Buffer* buffer : {real, out[0], alias.alias_buffer}) Destroy(buffer);
  }
}

TEST(Buffers, ViewsTellWhenTheyAreDone) {
  auto* data = static_cast<float*>(std::aligned_alloc(64, 64));
  for (int i = 0; i < 4; ++i) data[i] = i;
  std::promise<void> done;  // set by the last thread that releases the memory
  PW_ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, args);
  args.client = Host::Get().client;
  args.device_buffer_ptr = data;
  args.dims = kFour;
  args.num_dims = 1;
  args.element_type = PJRT_Buffer_Type_F32;
  args.device = Host::Get().devices[0];
  args.on_delete_callback = [](void*, void* arg) { static_cast<std::promise<void>*>(arg)->set_value(); };
  args.on_delete_callback_arg = &done;
  Check(Api()->PJRT_Client_CreateViewOfDeviceBuffer(&args));
  EXPECT_THAT(Fetch(args.buffer), ElementsAre(0, 1, 2, 3));
  std::future<void> is_done = done.get_future();
  EXPECT_NE(is_done.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  Destroy(args.buffer);
  EXPECT_EQ(is_done.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  std::free(data);
}

// The XLA of tensorflow-cpu 2.21 refuses; newer ones wait.
TEST(Buffers, DonationBehindADependencyWaitsForItOrIsRefused) {
  PJRT_Buffer* buffer = Put({1, 2, 3, 4});
  PW_ARGS(PJRT_Buffer_DonateWithControlDependency_Args, args);
  args.buffer = buffer;
  const Outcome donated = Take(Api()->PJRT_Buffer_DonateWithControlDependency(&args));
  if (PJRT_API_MINOR <= 90) {
    EXPECT_EQ(donated.code, PJRT_Error_Code_UNIMPLEMENTED);
    EXPECT_THAT(Fetch(buffer), ElementsAre(1, 2, 3, 4));
    return Destroy(buffer);
  }
  ASSERT_TRUE(donated.ok()) << donated.message;
  EXPECT_THROW(Fetch(buffer), std::runtime_error);
  PW_ARGS(PJRT_Buffer_ReadyEvent_Args, ready);
  ready.buffer = args.out_buffer;
  Check(Api()->PJRT_Buffer_ReadyEvent(&ready));
  EXPECT_FALSE(IsReady(ready.event));
  PW_ARGS(PJRT_Buffer_DonateWithControlDependency_Callback_Args, done);
  done.callback_data = args.callback_data;
  args.dependency_ready_callback(&done);
  EXPECT_TRUE(Await(ready.event).ok());
  EXPECT_THAT(Fetch(args.out_buffer), ElementsAre(1, 2, 3, 4));
  Destroy(args.out_buffer);
  Destroy(buffer);
}

TEST(Buffers, DataMayChangeAfterACallThatCopies) {
  std::vector<float> data(100000, 1);
  PJRT_Buffer* buffer = Put(data);
  data.assign(data.size(), 2);
  EXPECT_THAT(Fetch(buffer), ::testing::Each(1));
  Destroy(buffer);
}

TEST(Transfers, ArriveInPiecesBehindABufferThatExistsFirst) {
  PJRT_ShapeSpec spec{PJRT_ShapeSpec_STRUCT_SIZE};
  spec.dims = kFour;
  spec.num_dims = 1;
  spec.element_type = PJRT_Buffer_Type_F32;
  PW_ARGS(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, create);
  create.client = Host::Get().client;
  create.shape_specs = &spec;
  create.num_shape_specs = 1;
  create.memory = Host::Get().memories[2];
  Check(Api()->PJRT_Client_CreateBuffersForAsyncHostToDevice(&create));
  PW_ARGS(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, retrieve);
  retrieve.transfer_manager = create.transfer_manager;
  Check(Api()->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&retrieve));
  PW_ARGS(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args, size);
  size.transfer_manager = create.transfer_manager;
  Check(Api()->PJRT_AsyncHostToDeviceTransferManager_BufferSize(&size));
  EXPECT_EQ(size.buffer_size, 16u);
  const std::vector<float> data{5, 6, 7, 8};
  for (const int half : {0, 1}) {
    PW_ARGS(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, transfer);
    transfer.transfer_manager = create.transfer_manager;
    transfer.data = data.data() + 2 * half;
    transfer.offset = 8 * half;
    transfer.transfer_size = 8;
    transfer.is_last_transfer = half == 1;
    Check(Api()->PJRT_AsyncHostToDeviceTransferManager_TransferData(&transfer));
    EXPECT_TRUE(Await(transfer.done_with_h2d_transfer).ok());
  }
  EXPECT_THAT(Fetch(retrieve.buffer_out), ElementsAre(5, 6, 7, 8));
  PW_ARGS(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, destroy);
  destroy.transfer_manager = create.transfer_manager;
  Check(Api()->PJRT_AsyncHostToDeviceTransferManager_Destroy(&destroy));
  Destroy(retrieve.buffer_out);
}

TEST(Executables, RunOnAllDevicesAndOneByOne) {
  PJRT_LoadedExecutable* sum = Compile(kSumOverFour, 4);
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (int d = 0; d < 4; ++d) arguments.push_back({Put({1.0f * d, 1, 2, 3}, d)});
  for (PJRT_Buffer* out : Launch(sum, arguments)) {
    EXPECT_THAT(Fetch(out), ElementsAre(6, 4, 8, 12));
    Destroy(out);
  }
  for (int round = 1; round <= 50; ++round) {
    std::vector<std::thread> threads;
    for (int d = 0; d < 4; ++d) {
      threads.emplace_back([&, d] {
        PJRT_Buffer* out = Launch(sum, {arguments[d]}, Host::Get().devices[d], /*launch_id=*/round)[0];
        EXPECT_THAT(Fetch(out), ElementsAre(6, 4, 8, 12));
        Destroy(out);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (auto& list : arguments) Destroy(list[0]);
}

// XLA leaves collectives in programs for one device. They wait for no other device, so they may run on the caller's thread.
TEST(Executables, CollectivesOfOneDeviceNeedNoOtherThread) {
  PJRT_LoadedExecutable* sum = Compile(kSumOverOne);
  PJRT_Buffer* value = Put({0, 1, 2, 3}, 0);
  for (int round = 1; round <= 1000; ++round) {
    PJRT_Buffer* next = Launch(sum, {{value}})[0];
    Destroy(std::exchange(value, next));
    PW_ARGS(PJRT_Buffer_ReadyEvent_Args, ready);
    ready.buffer = value;
    Check(Api()->PJRT_Buffer_ReadyEvent(&ready));
    EXPECT_TRUE(IsReady(ready.event)) << round;
    EXPECT_TRUE(Await(ready.event).ok());
  }
  EXPECT_THAT(Fetch(value), ElementsAre(1000, 1001, 1002, 1003));
  Destroy(value);
}

// An argument that one device refuses keeps the program from all devices, so that none waits for it in a collective. The program
// of 65,536 elements has a thread for each device; the other one takes turns on this thread.
TEST(Executables, ThatFailOnOneDeviceFailAsAWhole) {
  for (const int size : {4, 65536}) {
    PJRT_LoadedExecutable* sum = Compile(OfSize(kSumOverFour, size), 4);
    std::vector<std::vector<PJRT_Buffer*>> arguments;
    for (int d = 0; d < 4; ++d) arguments.push_back({Put(std::vector<float>(size, 1.0f * d), d)});
    PJRT_Buffer* deleted = Put(std::vector<float>(size), 2);
    PW_ARGS(PJRT_Buffer_Delete_Args, remove);
    remove.buffer = deleted;
    Check(Api()->PJRT_Buffer_Delete(&remove));
    PJRT_Buffer* smaller = Put(std::vector<float>(size / 2), 2);
    for (PJRT_Buffer* bad : {arguments[1][0], deleted, smaller}) {
      std::vector<std::vector<PJRT_Buffer*>> wrong = arguments;
      wrong[2] = {bad};
      EXPECT_THROW(Launch(sum, wrong), std::runtime_error);
      for (PJRT_Buffer* out : Launch(sum, arguments)) {
        EXPECT_THAT(Fetch(out), Each(6));
        Destroy(out);
      }
    }
    for (auto& list : arguments) Destroy(list[0]);
    Destroy(deleted);
    Destroy(smaller);
  }
}

// Devices that take turns and have arrived at a collective do not wait for a device that has failed.
TEST(Executables, TurnsEndWhenMemoryIsThereForSomeDevicesOnly) {
  if (PJRT_API_MINOR > 90) GTEST_SKIP() << "in XLA after that of tensorflow-cpu 2.21 each device has a thread";
  PJRT_LoadedExecutable* sum = Compile(kSumOverFour, 4);
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (int d = 0; d < 4; ++d) arguments.push_back({Put({1.0f * d, 1, 2, 3}, d)});
  PJRT_Buffer* two_results = Put(std::vector<float>(8));
  std::vector<PJRT_Buffer*> all_memory;
  for (size_t size = std::stoul(kLimit) / sizeof(float); size > 0; size /= 2) {
    try {
      while (true) all_memory.push_back(Put(std::vector<float>(size)));
    } catch (const std::runtime_error&) {  // no room for another of this size
    }
  }
  Destroy(two_results);
  EXPECT_THROW(Launch(sum, arguments), std::runtime_error);
  for (PJRT_Buffer* buffer : all_memory) Destroy(buffer);
  for (PJRT_Buffer* out : Launch(sum, arguments)) {
    EXPECT_THAT(Fetch(out), ElementsAre(6, 4, 8, 12));
    Destroy(out);
  }
  for (auto& list : arguments) Destroy(list[0]);
}

TEST(Executables, SurviveSerialization) {
  PJRT_LoadedExecutable* sum = Compile(kSumOverFour, 4);
  PW_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = sum;
  Check(Api()->PJRT_LoadedExecutable_GetExecutable(&get));
  PW_ARGS(PJRT_Executable_Serialize_Args, serialize);
  serialize.executable = get.executable;
  Check(Api()->PJRT_Executable_Serialize(&serialize));
  PW_ARGS(PJRT_Executable_DeserializeAndLoad_Args, load);
  load.client = Host::Get().client;
  load.serialized_executable = serialize.serialized_bytes;
  load.serialized_executable_size = serialize.serialized_bytes_size;
  Check(Api()->PJRT_Executable_DeserializeAndLoad(&load));
  serialize.serialized_executable_deleter(serialize.serialized_executable);
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (int d = 0; d < 4; ++d) arguments.push_back({Put({1.0f * d, 1, 2, 3}, d)});
  for (PJRT_Buffer* out : Launch(load.loaded_executable, arguments)) EXPECT_THAT(Fetch(out), ElementsAre(6, 4, 8, 12));
}

TEST(Executables, GarbageIsRefusedByName) {
  EXPECT_THROW(Compile("module { this is not a program }"), std::runtime_error);
  PW_ARGS(PJRT_Executable_DeserializeAndLoad_Args, load);
  load.client = Host::Get().client;
  load.serialized_executable = "garbage";
  load.serialized_executable_size = 7;
  EXPECT_FALSE(Take(Api()->PJRT_Executable_DeserializeAndLoad(&load)).ok());
}

TEST(Executables, DeletedOnesRefuseToRun) {
  PJRT_LoadedExecutable* twice = Compile(kDouble);
  PW_ARGS(PJRT_LoadedExecutable_Delete_Args, remove);
  remove.executable = twice;
  Check(Api()->PJRT_LoadedExecutable_Delete(&remove));
  PW_ARGS(PJRT_LoadedExecutable_IsDeleted_Args, deleted);
  deleted.executable = twice;
  Check(Api()->PJRT_LoadedExecutable_IsDeleted(&deleted));
  EXPECT_TRUE(deleted.is_deleted);
  EXPECT_THROW(Launch(twice, {{Put({1, 2, 3, 4})}}), std::runtime_error);
}

void Register(const std::string& target, XLA_FFI_Handler* handler) {
  PW_ARGS(PJRT_FFI_Register_Handler_Args, registration);
  registration.target_name = target.data();
  registration.target_name_size = target.size();
  registration.handler = reinterpret_cast<void*>(handler);
  registration.platform_name = "cpu";
  registration.platform_name_size = 3;
  Check(Find<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI)->register_handler(&registration));
}

// A program that waits for the test's permission.
std::promise<void> may_pass;

xla::ffi::Error PassHandler(xla::ffi::Buffer<xla::ffi::F32> in, xla::ffi::ResultBuffer<xla::ffi::F32> out) {
  may_pass.get_future().wait();
  for (size_t i = 0; i < in.element_count(); ++i) out->typed_data()[i] = in.typed_data()[i];
  return xla::ffi::Error::Success();
}

TEST(Executables, ALaunchReturnsBeforeItsProgramHasRunAndOthersQueueBehindIt) {
  XLA_FFI_DEFINE_HANDLER(handler, PassHandler,
                         xla::ffi::Ffi::Bind().Arg<xla::ffi::Buffer<xla::ffi::F32>>().Ret<xla::ffi::Buffer<xla::ffi::F32>>());
  Register("pw_pass", handler);
  // Too large to run on the caller's thread.
  PJRT_LoadedExecutable* pass = Compile(R"(module {
    func.func public @main(%a: tensor<32768xf32>) -> tensor<32768xf32> {
      %0 = stablehlo.custom_call @pw_pass(%a) {api_version = 4 : i32, backend_config = {}} : (tensor<32768xf32>) -> tensor<32768xf32>
      return %0 : tensor<32768xf32>
    }
  })");
  PJRT_LoadedExecutable* twice = Compile(R"(module {
    func.func public @main(%a: tensor<32768xf32>) -> tensor<32768xf32> {
      %0 = stablehlo.add %a, %a : tensor<32768xf32>
      return %0 : tensor<32768xf32>
    }
  })");
  std::vector<PJRT_Buffer*> chain = {Put(std::vector<float>(32768, 3))};
  for (PJRT_LoadedExecutable* program : {pass, twice, twice}) chain.push_back(Launch(program, {{chain.back()}})[0]);
  std::vector<PJRT_Event*> events;
  for (size_t i = 1; i < chain.size(); ++i) {
    PW_ARGS(PJRT_Buffer_ReadyEvent_Args, ready);
    ready.buffer = chain[i];
    Check(Api()->PJRT_Buffer_ReadyEvent(&ready));
    EXPECT_FALSE(IsReady(ready.event)) << i;
    events.push_back(ready.event);
  }
  may_pass.set_value();
  for (PJRT_Event* event : events) EXPECT_TRUE(Await(event).ok());
  EXPECT_THAT(Fetch(chain.back()), ::testing::Each(12));
  for (PJRT_Buffer* buffer : chain) Destroy(buffer);
}

// A handler that the host registers, with data that travels with the launch.
struct Scale {
  static XLA_FFI_TypeId id;
  float factor;
};
XLA_FFI_TypeId Scale::id = {0};

xla::ffi::Error ScaleHandler(Scale* scale, xla::ffi::Buffer<xla::ffi::F32> in, xla::ffi::ResultBuffer<xla::ffi::F32> out) {
  for (size_t i = 0; i < in.element_count(); ++i) out->typed_data()[i] = in.typed_data()[i] * scale->factor;
  return xla::ffi::Error::Success();
}

TEST(Extensions, HandlersOfTheHostSeeItsData) {
  const auto* ffi = Find<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI);
  ASSERT_NE(ffi, nullptr);
  PJRT_FFI_Type_Register_Args type{PJRT_FFI_Type_Register_Args_STRUCT_SIZE};
  type.type_name = "pw.Scale";
  type.type_name_size = 8;
  PJRT_FFI_Type_Info info{};
  type.type_info = &info;
  Check(ffi->type_register(&type));
  EXPECT_NE(type.type_id, 0);
  Scale::id.type_id = type.type_id;
  XLA_FFI_DEFINE_HANDLER(handler, ScaleHandler,
                         xla::ffi::Ffi::Bind()
                             .Ctx<xla::ffi::UserData<Scale>>()
                             .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                             .Ret<xla::ffi::Buffer<xla::ffi::F32>>());
  Register("pw_scale", handler);
  PJRT_LoadedExecutable* program = Compile(R"(module {
    func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @pw_scale(%a) {api_version = 4 : i32, backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  })");
  PW_ARGS(PJRT_ExecuteContext_Create_Args, context);
  Check(Api()->PJRT_ExecuteContext_Create(&context));
  Scale scale{3};
  PW_ARGS(PJRT_FFI_UserData_Add_Args, add);
  add.context = context.context;
  add.user_data = {type.type_id, &scale};
  Check(ffi->user_data_add(&add));
  PJRT_Buffer* out = Launch(program, {{Put({1, 2, 3, 4})}}, nullptr, 0, context.context)[0];
  EXPECT_THAT(Fetch(out), ElementsAre(3, 6, 9, 12));
  PW_ARGS(PJRT_ExecuteContext_Destroy_Args, destroy);
  destroy.context = context.context;
  Check(Api()->PJRT_ExecuteContext_Destroy(&destroy));
}

TEST(Extensions, DescribeMemoriesAndLayouts) {
  const auto* memories = Find<PJRT_MemoryDescriptions_Extension>(PJRT_Extension_Type_MemoryDescriptions);
  PW_ARGS(PJRT_Device_GetDescription_Args, description);
  description.device = Host::Get().devices[0];
  Check(Api()->PJRT_Device_GetDescription(&description));
  PW_ARGS(PJRT_DeviceDescription_MemoryDescriptions_Args, list);
  list.device_description = description.device_description;
  Check(memories->PJRT_DeviceDescription_MemoryDescriptions(&list));
  ASSERT_EQ(list.num_memory_descriptions, 3u);
  PW_ARGS(PJRT_MemoryDescription_Kind_Args, kind);
  kind.memory_description = list.memory_descriptions[list.default_memory_index];
  Check(memories->PJRT_MemoryDescription_Kind(&kind));
  EXPECT_EQ(std::string(kind.kind, kind.kind_size), "device");

  const auto* layouts = Find<PJRT_Layouts_Extension>(PJRT_Extension_Type_Layouts);
  const int64_t dims[] = {2, 3};
  PW_ARGS(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout);
  layout.client = Host::Get().client;
  layout.type = PJRT_Buffer_Type_F32;
  layout.dims = dims;
  layout.num_dims = 2;
  Check(layouts->PJRT_Layouts_PJRT_Client_GetDefaultLayout(&layout));
  PW_ARGS(PJRT_Layouts_MemoryLayout_Serialize_Args, text);
  text.layout = layout.layout;
  Check(layouts->PJRT_Layouts_MemoryLayout_Serialize(&text));
  EXPECT_EQ(std::string(text.serialized_bytes, text.serialized_bytes_size), "{1,0}");
  text.serialized_layout_deleter(text.serialized_layout);
  PW_ARGS(PJRT_Layouts_MemoryLayout_Destroy_Args, destroy);
  destroy.layout = layout.layout;
  Check(layouts->PJRT_Layouts_MemoryLayout_Destroy(&destroy));
}

}  // namespace
}  // namespace pw::pjrt_cpu::testing
