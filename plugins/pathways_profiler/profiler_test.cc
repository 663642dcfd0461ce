// Tests the profiler as jaxlib uses it: through the profiler extension of its PJRT C API.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

namespace {

using Function = void (*)();
using Add = void (*)(const char* bytes, size_t size);

// The package's half. Its functions take no arguments, so there is one for all tests.
struct Package {
  Add add = nullptr;
  std::string xspaces;  // what the hosts have recorded
  int started = 0;
  int stopped = 0;
};
Package& ThePackage() {
  static Package package;
  return package;
}

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(PW_PROFILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto connect = reinterpret_cast<const void* (*)(Function, Function)>(dlsym(library, "PathwaysProfiler"));
    ThePackage() = {reinterpret_cast<Add>(dlsym(library, "PathwaysProfilerAdd")), "", 0, 0};
    ASSERT_TRUE(connect != nullptr && ThePackage().add != nullptr);
    const auto* table = static_cast<const PJRT_Api*>(connect([] { ++ThePackage().started; },
                                                             [] {
                                                               ++ThePackage().stopped;
                                                               for (char byte : ThePackage().xspaces) ThePackage().add(&byte, 1);
                                                             }));
    ASSERT_NE(table->extension_start, nullptr);
    ASSERT_EQ(table->extension_start->type, PJRT_Extension_Type_Profiler);
    api_ = reinterpret_cast<const PJRT_Profiler_Extension*>(table->extension_start)->profiler_api;
  }
  PLUGIN_Profiler* Create() {
    PLUGIN_Profiler_Create_Args args{PLUGIN_Profiler_Create_Args_STRUCT_SIZE};
    EXPECT_EQ(api_->create(&args), nullptr);
    return args.profiler;
  }
  void Start(PLUGIN_Profiler* profiler) {
    PLUGIN_Profiler_Start_Args args{PLUGIN_Profiler_Start_Args_STRUCT_SIZE, profiler};
    EXPECT_EQ(api_->start(&args), nullptr);
  }
  void Stop(PLUGIN_Profiler* profiler) {
    PLUGIN_Profiler_Stop_Args args{PLUGIN_Profiler_Stop_Args_STRUCT_SIZE, profiler};
    EXPECT_EQ(api_->stop(&args), nullptr);
  }
  PLUGIN_Profiler_CollectData_Args Collect(PLUGIN_Profiler* profiler, uint8_t* buffer = nullptr) {
    PLUGIN_Profiler_CollectData_Args args{PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE, profiler, buffer, 0};
    EXPECT_EQ(api_->collect_data(&args), nullptr);
    return args;
  }
  void Destroy(PLUGIN_Profiler* profiler) {
    PLUGIN_Profiler_Destroy_Args args{PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE, profiler};
    EXPECT_EQ(api_->destroy(&args), nullptr);
  }

  const PLUGIN_Profiler_Api* api_ = nullptr;
};

TEST_F(ProfilerTest, AHostThatPassesNoBufferGetsThePlaceOfTheBytes) {
  ThePackage().xspaces = "the hosts' events";
  PLUGIN_Profiler* profiler = Create();
  Start(profiler);
  EXPECT_EQ(ThePackage().started, 1);
  Stop(profiler);
  const auto collected = Collect(profiler);
  ASSERT_NE(collected.buffer, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(collected.buffer), collected.buffer_size_in_bytes), "the hosts' events");
  Destroy(profiler);
  EXPECT_EQ(ThePackage().stopped, 1);
}

TEST_F(ProfilerTest, AHostThatPassesABufferGetsTheBytesInIt) {
  ThePackage().xspaces = "the hosts' events";
  PLUGIN_Profiler* profiler = Create();
  Start(profiler);
  Stop(profiler);
  std::string buffer(Collect(profiler).buffer_size_in_bytes, '\0');
  Collect(profiler, reinterpret_cast<uint8_t*>(buffer.data()));
  EXPECT_EQ(buffer, "the hosts' events");
  Destroy(profiler);
}

TEST_F(ProfilerTest, ARecordingThatIsNotStoppedEndsWithItsProfiler) {
  PLUGIN_Profiler* profiler = Create();
  Start(profiler);
  Destroy(profiler);
  EXPECT_EQ(ThePackage().stopped, 1);
  profiler = Create();
  Destroy(profiler);
  EXPECT_EQ(ThePackage().stopped, 1) << "this one did not start";
}

TEST_F(ProfilerTest, AProfileHasNothingOfTheOneBefore) {
  ThePackage().xspaces = "the first";
  PLUGIN_Profiler* profiler = Create();
  Start(profiler);
  Stop(profiler);
  Destroy(profiler);
  ThePackage().xspaces = "";
  profiler = Create();
  Start(profiler);
  Stop(profiler);
  EXPECT_EQ(Collect(profiler).buffer_size_in_bytes, 0u);
  Destroy(profiler);
}

}  // namespace
