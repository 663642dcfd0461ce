// Tests that programs of strangers do no harm to the process (docs/security.md).
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/pjrt_cpu/c_api_testing.h"

namespace pw::pjrt_cpu::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns why the program is refused; empty: it is not.
std::string Refusal(const std::string& program) {
  try {
    Compile(program);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string Calling(const std::string& function, int api_version) {
  return "module {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    %0 = stablehlo.custom_call @" + function +
         "(%a) {api_version = " + std::to_string(api_version) +
         " : i32} : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}";
}

// XLA looks such names up in tables of functions that were written for that. A name that is missing there is not looked up elsewhere.
TEST(HostilePrograms, FunctionsOfTheProcessAreNotCalledByTheirNames) {
  for (const std::string function : {"memcpy", "free", "system", "xla_python_cpu_callback", "xla_buffer_python_cpu_callback"}) {
    for (int api_version : {1, 2, 3, 4}) EXPECT_THAT(Refusal(Calling(function, api_version)), HasSubstr(function)) << api_version;
  }
}

TEST(HostilePrograms, CallsThatTheCompilerCarriesOutAreNot) {
  PJRT_LoadedExecutable* program = Compile(Calling("Sharding", 1));
  EXPECT_THAT(Fetch(Launch(program, {{Put({1, 2, 3, 4})}})[0]), ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace pw::pjrt_cpu::testing
