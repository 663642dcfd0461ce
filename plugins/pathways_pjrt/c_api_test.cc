// Tests the C API as a host other than jax uses it: the table without a cluster, and the entries that jax does not call on a local cluster.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/process/child_process.h"
#include "pathways/program/serialized_executable.h"
#include "plugins/c_table/testing.h"
#include "plugins/pathways_pjrt/package_calls.h"
#include "plugins/pathways_pjrt/shardings_extension.h"
#include "xla/compile_options.pb.h"
#include "xla/hlo.pb.h"
#include "xla/xla_data.pb.h"

namespace pw::pathways_pjrt {
namespace {

using c_table::testing::Api;
using c_table::testing::Await;
using c_table::testing::Check;
using c_table::testing::IsReady;
using c_table::testing::Outcome;
using c_table::testing::Ready;
using c_table::testing::Take;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

PJRT_NamedValue Text(const char* name, const std::string& value) {
  PJRT_NamedValue out{PJRT_NamedValue_STRUCT_SIZE};
  out.name = name;
  out.name_size = std::strlen(name);
  out.type = PJRT_NamedValue_kString;
  out.string_value = value.data();
  out.value_size = value.size();
  return out;
}

PJRT_NamedValue Number(const char* name, int64_t value) {
  PJRT_NamedValue out{PJRT_NamedValue_STRUCT_SIZE};
  out.name = name;
  out.name_size = std::strlen(name);
  out.type = PJRT_NamedValue_kInt64;
  out.int64_value = value;
  out.value_size = 1;
  return out;
}

Outcome Create(std::vector<PJRT_NamedValue> options, PJRT_Client** client) {
  PW_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = options.data();
  args.num_options = options.size();
  const Outcome outcome = Take(Api()->PJRT_Client_Create(&args));
  *client = args.client;
  return outcome;
}

using c_table::testing::Destroy;

void Destroy(PJRT_LoadedExecutable* executable) {
  PW_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = executable;
  Check(Api()->PJRT_LoadedExecutable_Destroy(&args));
}

void Destroy(PJRT_Executable* executable) {
  PW_ARGS(PJRT_Executable_Destroy_Args, args);
  args.executable = executable;
  Check(Api()->PJRT_Executable_Destroy(&args));
}

// Returns a handle of the executable's properties.
PJRT_Executable* PropertiesOf(PJRT_LoadedExecutable* loaded) {
  PW_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = loaded;
  Check(Api()->PJRT_LoadedExecutable_GetExecutable(&args));
  return args.executable;
}

// ----------------------------------------------------------------------------------------------------------- without a cluster

TEST(Table, HasEveryEntryOfItsVersion) {
  EXPECT_EQ(Api()->struct_size, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Event_Set));
  EXPECT_EQ(Api()->pjrt_api_version.minor_version, 91);
  const auto* entries = reinterpret_cast<void* const*>(&Api()->PJRT_Error_Destroy);
  const auto* end = reinterpret_cast<void* const*>(reinterpret_cast<const char*>(Api()) + Api()->struct_size);
  for (int i = 0; entries + i != end; ++i) EXPECT_NE(entries[i], nullptr) << "entry " << i;
}

TEST(Table, WhatIsMissingSaysSoAndNamesTheOtherDoor) {
  PW_ARGS(PJRT_Client_DmaMap_Args, args);
  const Outcome outcome = Take(Api()->PJRT_Client_DmaMap(&args));
  EXPECT_EQ(outcome.code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_THAT(outcome.message,
              StartsWith("PJRT_Client_DmaMap is not implemented by Pathways' PJRT door; set PATHWAYS_DOOR=ifrt"));
}

TEST(Clients, WantAnAddressAndKnowTheirOptions) {
  PJRT_Client* client;
  EXPECT_THAT(Create({}, &client).message, HasSubstr("`cluster`"));
  const Outcome unknown = Create({Number("window", 1)}, &client);
  EXPECT_EQ(unknown.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_THAT(unknown.message, HasSubstr("'window'"));
}

TEST(Clients, SayWhichClusterCannotBeReached) {
  PJRT_Client* client;
  const Outcome outcome = Create({Text("cluster", "unix:/nobody/listens"), Number("patience", 1)}, &client);
  EXPECT_EQ(outcome.code, PJRT_Error_Code_UNAVAILABLE);
  EXPECT_THAT(outcome.message, HasSubstr("unix:/nobody/listens"));
}

TEST(Events, AreSetOnceByTheHost) {
  PW_ARGS(PJRT_Event_Create_Args, create);
  Check(Api()->PJRT_Event_Create(&create));
  EXPECT_FALSE(IsReady(create.event));
  PW_ARGS(PJRT_Event_Error_Args, error);
  error.event = create.event;
  EXPECT_EQ(Take(Api()->PJRT_Event_Error(&error)).code, PJRT_Error_Code_FAILED_PRECONDITION);
  std::string heard;
  PW_ARGS(PJRT_Event_OnReady_Args, on_ready);
  on_ready.event = create.event;
  on_ready.user_arg = &heard;
  on_ready.callback = [](PJRT_Error* why, void* to) { *static_cast<std::string*>(to) = Take(why).message; };
  Check(Api()->PJRT_Event_OnReady(&on_ready));
  PW_ARGS(PJRT_Event_Set_Args, set);
  set.event = create.event;
  set.error_code = PJRT_Error_Code_ABORTED;
  set.error_message = "stop";
  set.error_message_size = 4;
  Check(Api()->PJRT_Event_Set(&set));
  EXPECT_EQ(heard, "stop");
  EXPECT_TRUE(IsReady(create.event));
  EXPECT_EQ(Take(Api()->PJRT_Event_Error(&error)).code, PJRT_Error_Code_ABORTED);
  EXPECT_EQ(Take(Api()->PJRT_Event_Set(&set)).code, PJRT_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(Await(create.event).message, "stop");
}

// ---------------------------------------------------------------------------------------------------------- on a local cluster

constexpr char kDoubled[] = R"(
module @doubled {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// One cluster of four devices, and one client, for all tests of the process.
class Cluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = absl::StrCat(::testing::TempDir(), "pathways_pjrt_test.XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    const std::string address = absl::StrCat("unix:", folder_, "/clients.sock");
    process_ =
        new ChildProcess({{PW_LOCAL_BINARY, "--plugin", PW_DEVICE_PLUGIN, "--devices=4", "--island=island0", "--listen-clients",
                           address, "--port-file", absl::StrCat(folder_, "/port"), absl::StrCat("--exit-with-parent=", getpid())},
                          0});
    ASSERT_TRUE(process_->EnsureRunning().ok());
    const Outcome outcome = Create({Text("cluster", address), Text("description", "a test"), Number("patience", 60)}, &client_);
    ASSERT_TRUE(outcome.ok()) << outcome.message;
    PW_ARGS(PJRT_Client_AddressableDevices_Args, list);
    list.client = client_;
    Check(Api()->PJRT_Client_AddressableDevices(&list));
    devices_.assign(list.addressable_devices, list.addressable_devices + list.num_addressable_devices);
  }
  static void TearDownTestSuite() {
    PW_ARGS(PJRT_Client_Destroy_Args, destroy);
    destroy.client = client_;
    Check(Api()->PJRT_Client_Destroy(&destroy));
    delete process_;
    std::filesystem::remove_all(folder_);
  }

  static PJRT_Buffer* Put(const std::vector<float>& values, int device = 0) {
    const int64_t dim = static_cast<int64_t>(values.size());
    PW_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
    args.client = client_;
    args.data = values.data();
    args.type = PJRT_Buffer_Type_F32;
    args.dims = &dim;
    args.num_dims = 1;
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = devices_[device];
    Check(Api()->PJRT_Client_BufferFromHostBuffer(&args));
    Await(args.done_with_host_buffer);
    return args.buffer;
  }

  static Outcome Read(PJRT_Buffer* buffer, std::vector<float>* values) {
    PW_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
    args.src = buffer;
    if (const Outcome outcome = Take(Api()->PJRT_Buffer_ToHostBuffer(&args)); !outcome.ok()) return outcome;
    values->resize(args.dst_size / sizeof(float));
    args.dst = values->data();
    if (const Outcome outcome = Take(Api()->PJRT_Buffer_ToHostBuffer(&args)); !outcome.ok()) return outcome;
    return Await(args.event);
  }
  static std::vector<float> Fetch(PJRT_Buffer* buffer) {
    std::vector<float> values;
    const Outcome outcome = Read(buffer, &values);
    EXPECT_TRUE(outcome.ok()) << outcome.message;
    return values;
  }

  static Outcome TryCompile(std::string text, int replicas, PJRT_LoadedExecutable** executable, const char* format = "mlir",
                            const std::map<std::string, std::string>& overrides = {}) {
    xla::CompileOptionsProto options;
    for (const auto& [name, value] : overrides) (*options.mutable_env_option_overrides())[name].set_string_field(value);
    options.mutable_executable_build_options()->set_num_replicas(replicas);
    options.mutable_executable_build_options()->set_num_partitions(1);
    const std::string bytes = options.SerializeAsString();
    PJRT_Program program{PJRT_Program_STRUCT_SIZE};
    program.code = text.data();
    program.code_size = text.size();
    program.format = format;
    program.format_size = std::strlen(format);
    PW_ARGS(PJRT_Client_Compile_Args, args);
    args.client = client_;
    args.program = &program;
    args.compile_options = bytes.data();
    args.compile_options_size = bytes.size();
    const Outcome outcome = Take(Api()->PJRT_Client_Compile(&args));
    *executable = args.executable;
    return outcome;
  }
  static PJRT_LoadedExecutable* Compile(const std::string& text, int replicas) {
    PJRT_LoadedExecutable* executable = nullptr;
    const Outcome outcome = TryCompile(text, replicas, &executable);
    EXPECT_TRUE(outcome.ok()) << outcome.message;
    return executable;
  }

  // Runs a program of one argument and one result. `arguments`: one for each device.
  static Outcome TryRun(PJRT_LoadedExecutable* executable, std::vector<PJRT_Buffer*> arguments,
                        std::vector<PJRT_Buffer*>* results) {
    std::vector<PJRT_Buffer* const*> lists;
    std::vector<PJRT_Buffer**> outputs;
    results->assign(arguments.size(), nullptr);
    for (size_t d = 0; d < arguments.size(); ++d) {
      lists.push_back(&arguments[d]);
      outputs.push_back(&(*results)[d]);
    }
    std::vector<PJRT_Event*> events(arguments.size());
    PW_ARGS(PJRT_ExecuteOptions, options);
    PW_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
    args.executable = executable;
    args.options = &options;
    args.argument_lists = lists.data();
    args.num_devices = arguments.size();
    args.num_args = 1;
    args.output_lists = outputs.data();
    args.device_complete_events = events.data();
    if (const Outcome outcome = Take(Api()->PJRT_LoadedExecutable_Execute(&args)); !outcome.ok()) return outcome;
    Outcome last;
    for (PJRT_Event* event : events) last = Await(event);
    return last;
  }

  static std::string folder_;
  static ChildProcess* process_;
  static PJRT_Client* client_;
  static std::vector<PJRT_Device*> devices_;
};

std::string Cluster::folder_;
ChildProcess* Cluster::process_ = nullptr;
PJRT_Client* Cluster::client_ = nullptr;
std::vector<PJRT_Device*> Cluster::devices_;

TEST_F(Cluster, TellsItsStablehloVersionAndItsSession) {
  PW_ARGS(PJRT_Plugin_Attributes_Args, args);
  Check(Api()->PJRT_Plugin_Attributes(&args));
  std::vector<std::string> names;
  for (size_t i = 0; i < args.num_attributes; ++i) names.emplace_back(args.attributes[i].name, args.attributes[i].name_size);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"pathways_client", "stablehlo_current_version"}));
}

TEST_F(Cluster, RunsAProgramOnEveryDeviceAndTakesItsResultsApart) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 4);
  std::vector<PJRT_Buffer*> arguments, results, again;
  for (int d = 0; d < 4; ++d) arguments.push_back(Put({1, 2, 3, static_cast<float>(d)}, d));
  ASSERT_TRUE(TryRun(doubled, arguments, &results).ok());
  ASSERT_TRUE(TryRun(doubled, results, &again).ok());  // the results are still one array
  for (int d = 0; d < 4; ++d) EXPECT_THAT(Fetch(again[d]), ElementsAre(4, 8, 12, 4 * d));
  Destroy(results[0]);  // the others' array lives on
  EXPECT_THAT(Fetch(results[3]), ElementsAre(2, 4, 6, 6));
  EXPECT_THAT(Fetch(arguments[2]), ElementsAre(1, 2, 3, 2));
  // Buffers of different arrays, in another order than theirs.
  std::vector<PJRT_Buffer*> mixed = {again[0], arguments[1], again[2], results[3]}, last;
  ASSERT_TRUE(TryRun(doubled, mixed, &last).ok());
  EXPECT_THAT(Fetch(last[1]), ElementsAre(2, 4, 6, 2));
  EXPECT_THAT(Fetch(last[2]), ElementsAre(8, 16, 24, 16));
  EXPECT_THAT(Fetch(again[2]), ElementsAre(4, 8, 12, 8));
  results.erase(results.begin());
  for (const auto* list : {&arguments, &results, &again, &last}) {
    for (PJRT_Buffer* buffer : *list) Destroy(buffer);
  }
  Destroy(doubled);
}

TEST_F(Cluster, RefusesCallsThatDoNotFitTheProgram) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 2);
  PJRT_Buffer* x = Put({1, 2, 3, 4});
  std::vector<PJRT_Buffer*> results;
  EXPECT_THAT(TryRun(doubled, {x}, &results).message, HasSubstr("runs on 2 devices"));
  PW_ARGS(PJRT_Buffer_Delete_Args, remove);
  remove.buffer = x;
  Check(Api()->PJRT_Buffer_Delete(&remove));
  EXPECT_THAT(TryRun(doubled, {x, x}, &results).message, HasSubstr("deleted or donated"));
  std::vector<float> values;
  EXPECT_EQ(Read(x, &values).code, PJRT_Error_Code_INVALID_ARGUMENT);
  PW_ARGS(PJRT_LoadedExecutable_Delete_Args, forget);
  forget.executable = doubled;
  Check(Api()->PJRT_LoadedExecutable_Delete(&forget));
  EXPECT_THAT(TryRun(doubled, {x, x}, &results).message, HasSubstr("deleted executable"));
  Destroy(x);
  Destroy(doubled);
}

TEST_F(Cluster, AnErrorIsTheValueOfWhatDependsOnIt) {
  PW_ARGS(PJRT_Device_DefaultMemory_Args, memory);
  memory.device = devices_[0];
  Check(Api()->PJRT_Device_DefaultMemory(&memory));
  const int64_t four = 4;
  PW_ARGS(PJRT_Client_CreateErrorBuffer_Args, args);
  args.client = client_;
  args.error_code = PJRT_Error_Code_ABORTED;
  args.error_message = "it was not to be";
  args.error_message_size = std::strlen(args.error_message);
  args.shape_dims = &four;
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = memory.memory;
  Check(Api()->PJRT_Client_CreateErrorBuffer(&args));
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 1);
  std::vector<PJRT_Buffer*> results;
  const Outcome run = TryRun(doubled, {args.buffer}, &results);
  EXPECT_EQ(run.code, PJRT_Error_Code_ABORTED);
  EXPECT_THAT(run.message, HasSubstr("it was not to be"));
  EXPECT_THAT(Ready(results[0]).message, HasSubstr("it was not to be"));
  std::vector<float> values;
  EXPECT_THAT(Read(results[0], &values).message, HasSubstr("it was not to be"));
  Destroy(results[0]);
  Destroy(args.buffer);
  Destroy(doubled);
}

TEST_F(Cluster, CopiesToAnotherDevice) {
  PJRT_Buffer* x = Put({5, 6, 7, 8}, 1);
  PW_ARGS(PJRT_Buffer_CopyToDevice_Args, copy);
  copy.buffer = x;
  copy.dst_device = devices_[3];
  Check(Api()->PJRT_Buffer_CopyToDevice(&copy));
  Destroy(x);
  PW_ARGS(PJRT_Buffer_Device_Args, where);
  where.buffer = copy.dst_buffer;
  Check(Api()->PJRT_Buffer_Device(&where));
  EXPECT_EQ(where.device, devices_[3]);
  EXPECT_THAT(Fetch(copy.dst_buffer), ElementsAre(5, 6, 7, 8));
  Destroy(copy.dst_buffer);
}

TEST_F(Cluster, RefusesProgramsThatItCannotRun) {
  PJRT_LoadedExecutable* executable = nullptr;
  EXPECT_THAT(TryCompile(kDoubled, 1, &executable, "hlo").message, HasSubstr("PATHWAYS_DOOR=ifrt"));
  const std::string calls = "custom_call @xla_ffi_python_cpu_callback(";
  const Outcome outcome = TryCompile(calls, 1, &executable);
  EXPECT_EQ(outcome.code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_THAT(outcome.message, HasSubstr("PATHWAYS_DOOR=ifrt"));
  EXPECT_FALSE(TryCompile("module {", 1, &executable).ok());
  EXPECT_EQ(TryCompile(kDoubled, 5, &executable).code, PJRT_Error_Code_INVALID_ARGUMENT);
}

TEST_F(Cluster, RefusesPortsThatHaveNoPlaceInAProgram) {
  PJRT_LoadedExecutable* executable = nullptr;
  for (const char* port : {"", "k", "k:1:0:0", ":1:0:0:0",
                           "k:0:0::", "k:1:1::", "k:1:-1::", "k:1:0:x:", "k:1:0:-1:", "k:1:0:0,:", "k:99999999:0::"}) {
    const Outcome outcome = TryCompile(kDoubled, 1, &executable, "mlir", {{"pathways_port", port}});
    EXPECT_EQ(outcome.code, PJRT_Error_Code_INVALID_ARGUMENT) << port;
    EXPECT_THAT(outcome.message, HasSubstr("KEY:PORTS:NUMBER:PARAMETERS:RESULTS"));
  }
  EXPECT_EQ(TryCompile(kDoubled, 1, &executable, "mlir", {{"pathways_port", "k:1:0:0:0"}}).code, PJRT_Error_Code_NOT_FOUND);
  const Outcome encoded =
      TryCompile(kDoubled, 1, &executable, "mlir", {{"pathways_port", "k:1:0:0:0"}, {"pathways_program", "&"}});
  EXPECT_THAT(encoded.message, HasSubstr("base64"));
  const Outcome program =
      TryCompile(kDoubled, 1, &executable, "mlir", {{"pathways_port", "k:1:0:0:0"}, {"pathways_program", "YQ=="}});
  EXPECT_EQ(program.code, PJRT_Error_Code_INVALID_ARGUMENT) << program.message;
}

TEST_F(Cluster, AnswersThePackagesQuestions) {
  void* library = dlopen(PW_PLUGIN_LIBRARY, RTLD_NOW);
  auto* ask = reinterpret_cast<decltype(&PathwaysAsk)>(dlsym(library, "PathwaysAsk"));
  auto* free_text = reinterpret_cast<decltype(&PathwaysFree)>(dlsym(library, "PathwaysFree"));
  const auto answer = [&](uint64_t client, const std::string& question) {
    char* text = nullptr;
    size_t size = 0;
    const int code = ask(client, question.data(), question.size(), &text, &size);
    const std::string said(text, size);
    free_text(text);
    return std::make_pair(code, said);
  };
  PW_ARGS(PJRT_Plugin_Attributes_Args, args);
  Check(Api()->PJRT_Plugin_Attributes(&args));
  uint64_t me = 0;
  for (size_t i = 0; i < args.num_attributes; ++i) {
    if (std::string(args.attributes[i].name, args.attributes[i].name_size) == "pathways_number")
      me = args.attributes[i].int64_value;
  }
  const auto [code, report] = answer(me, R"({"statusRequest": {}})");
  EXPECT_EQ(code, 0);
  EXPECT_THAT(report, HasSubstr("\"islands\""));
  EXPECT_EQ(answer(me, R"({"effectsRequest": {}})"), std::make_pair(0, std::string("{}")));
  EXPECT_EQ(answer(me + 1000, R"({"statusRequest": {}})").first, static_cast<int>(absl::StatusCode::kNotFound));
  for (const char* bad : {"", "{", "[]", "{}", R"({"statusRequest": 1})", R"({"statusRequest": {}, "effectsRequest": {}})",
                          R"({"sliceRequest": {}})"})
    EXPECT_EQ(answer(me, bad).first, static_cast<int>(absl::StatusCode::kInvalidArgument)) << bad;
  EXPECT_EQ(answer(me, R"({"otherRequest": {}})").first, static_cast<int>(absl::StatusCode::kUnimplemented));
}

TEST_F(Cluster, TellsTheOptimizedProgram) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 1);
  PJRT_Program program{PJRT_Program_STRUCT_SIZE};
  PW_ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = PropertiesOf(doubled);
  args.program = &program;
  Check(Api()->PJRT_Executable_OptimizedProgram(&args));
  std::string bytes(program.code_size, '\0');
  program.code = bytes.data();
  program.code_size = bytes.size() - 1;
  EXPECT_EQ(Take(Api()->PJRT_Executable_OptimizedProgram(&args)).code, PJRT_Error_Code_INVALID_ARGUMENT);
  program.code_size = bytes.size();
  Check(Api()->PJRT_Executable_OptimizedProgram(&args));
  EXPECT_EQ(std::string(program.format, program.format_size), "hlo_with_config");
  xla::HloModuleProtoWithConfig module;
  ASSERT_TRUE(module.ParseFromString(bytes));
  EXPECT_THAT(module.hlo_module().name(), HasSubstr("doubled"));
  Destroy(args.executable);
  Destroy(doubled);
}

TEST_F(Cluster, TellsWhereAProgramRuns) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 4);
  PW_ARGS(PJRT_LoadedExecutable_GetDeviceAssignment_Args, args);
  args.executable = doubled;
  Check(Api()->PJRT_LoadedExecutable_GetDeviceAssignment(&args));
  xla::DeviceAssignmentProto assignment;
  ASSERT_TRUE(assignment.ParseFromArray(args.serialized_bytes, static_cast<int>(args.serialized_bytes_size)));
  args.serialized_device_assignment_deleter(args.serialized_device_assignment);
  EXPECT_THAT(assignment.computation_devices(0).replica_device_ids(), ElementsAre(0, 1, 2, 3));
  int devices[4] = {};
  PW_ARGS(PJRT_Client_DefaultDeviceAssignment_Args, by_default);
  by_default.client = client_;
  by_default.num_replicas = 2;
  by_default.num_partitions = 2;
  by_default.default_assignment = devices;
  by_default.default_assignment_size = 4;
  Check(Api()->PJRT_Client_DefaultDeviceAssignment(&by_default));
  EXPECT_THAT(devices, ElementsAre(0, 1, 2, 3));
  by_default.default_assignment_size = 3;
  EXPECT_EQ(Take(Api()->PJRT_Client_DefaultDeviceAssignment(&by_default)).code, PJRT_Error_Code_INVALID_ARGUMENT);
  Destroy(doubled);
}

std::string Serialized(PJRT_LoadedExecutable* loaded) {
  PW_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = PropertiesOf(loaded);
  Check(Api()->PJRT_Executable_Serialize(&args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  Destroy(const_cast<PJRT_Executable*>(args.executable));
  return bytes;
}

Outcome Deserialize(PJRT_Client* client, const std::string& bytes, PJRT_LoadedExecutable** loaded,
                    const std::string& options = "") {
  PW_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  args.overridden_serialized_compile_options = options.empty() ? nullptr : options.data();
  args.overridden_serialized_compile_options_size = options.size();
  const Outcome outcome = Take(Api()->PJRT_Executable_DeserializeAndLoad(&args));
  *loaded = args.loaded_executable;
  return outcome;
}

TEST_F(Cluster, AnExecutableThatWasSerializedRunsAgain) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 2);
  const std::string bytes = Serialized(doubled);
  Destroy(doubled);
  PJRT_LoadedExecutable* loaded = nullptr;
  const Outcome outcome = Deserialize(client_, bytes, &loaded);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  std::vector<PJRT_Buffer*> arguments = {Put({1, 2, 3, 4}, 0), Put({5, 6, 7, 8}, 1)}, results;
  ASSERT_TRUE(TryRun(loaded, arguments, &results).ok());
  EXPECT_THAT(Fetch(results[1]), ElementsAre(10, 12, 14, 16));
  EXPECT_EQ(Serialized(loaded), bytes);
  for (const auto* list : {&arguments, &results}) {
    for (PJRT_Buffer* buffer : *list) Destroy(buffer);
  }
  Destroy(loaded);
}

TEST_F(Cluster, TheHostsOptionsReplaceThoseOfASerializedExecutable) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 1);
  xla::CompileOptionsProto options;
  options.mutable_executable_build_options()->set_num_replicas(2);
  options.mutable_executable_build_options()->set_num_partitions(1);
  PJRT_LoadedExecutable* loaded = nullptr;
  const Outcome outcome = Deserialize(client_, Serialized(doubled), &loaded, options.SerializeAsString());
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  PW_ARGS(PJRT_Executable_GetCompileOptions_Args, get);
  get.executable = PropertiesOf(loaded);
  Check(Api()->PJRT_Executable_GetCompileOptions(&get));
  EXPECT_EQ(std::string(get.serialized_bytes, get.serialized_bytes_size), options.SerializeAsString());
  get.serialized_compile_options_deleter(get.serialized_compile_options);
  Destroy(get.executable);
  PW_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, where);
  where.executable = loaded;
  Check(Api()->PJRT_LoadedExecutable_AddressableDevices(&where));
  EXPECT_EQ(where.num_addressable_devices, 2u);
  EXPECT_EQ(Deserialize(client_, Serialized(doubled), &loaded, "no options").code, PJRT_Error_Code_INVALID_ARGUMENT);
  Destroy(loaded);
  Destroy(doubled);
}

TEST_F(Cluster, RefusesExecutablesThatItDidNotSerialize) {
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 1);
  const std::string bytes = Serialized(doubled);
  Destroy(doubled);
  PJRT_LoadedExecutable* loaded = nullptr;
  std::string changed = bytes;
  changed[bytes.size() / 2] ^= 1;
  for (const std::string& wrong : {std::string(), std::string("garbage"), bytes.substr(0, bytes.size() - 1), changed}) {
    const Outcome outcome = Deserialize(client_, wrong, &loaded);
    EXPECT_EQ(outcome.code, PJRT_Error_Code_INVALID_ARGUMENT);
    EXPECT_THAT(outcome.message, HasSubstr("Compile the program again"));
  }
  const Outcome elsewhere =
      Deserialize(client_, *program::SerializeExecutable("tpu", "TPU of revision 9", "module {}", ""), &loaded);
  EXPECT_EQ(elsewhere.code, PJRT_Error_Code_FAILED_PRECONDITION);
  EXPECT_THAT(elsewhere.message, HasSubstr("TPU of revision 9"));
}

TEST_F(Cluster, ShardingsAreReadByTheirOffsets) {
  const PJRT_Extension_Base* extension = Api()->extension_start;
  while (extension != nullptr && extension->type != kShardingsExtensionType) extension = extension->next;
  ASSERT_NE(extension, nullptr);
  PJRT_LoadedExecutable* doubled = Compile(kDoubled, 1);
  ShardingsArgs args{sizeof(ShardingsArgs), nullptr, PropertiesOf(doubled), 0, nullptr, nullptr};
  Check(reinterpret_cast<const ShardingsTable*>(extension)->output_shardings(&args));
  EXPECT_EQ(args.num_values, 1u);
  Destroy(args.executable);
  Destroy(doubled);
}

}  // namespace
}  // namespace pw::pathways_pjrt
