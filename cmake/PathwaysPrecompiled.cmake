# Third-party headers, parsed once. Most of the time of compiling a source is spent on the headers of the standard library, abseil,
# protobuf and, in tests, gmock. Without precompiling, a build from nothing takes a third longer.
#
#   pw_precompiled(<target>)         a library of ours
#   pw_precompiled_test(<target>)    a test
#
# Off in builds by clang and under sanitizers: these check that every file includes the headers that it uses.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PW_SANITIZE)
  set(precompile ON)
else()
  set(precompile OFF)
endif()
option(PW_PRECOMPILE "Parse the headers of others once" ${precompile})

# Tests run for seconds, so their own code is optimized less; the code under test is optimized as usual.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(PW_TEST_OPTIMIZATION -O1)
else()
  set(PW_TEST_OPTIMIZATION "")
endif()

function(pw_precompiled target)
  if(PW_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM pw_precompiled_headers)
  endif()
endfunction()

function(pw_precompiled_test target)
  target_compile_options(${target} PRIVATE ${PW_TEST_OPTIMIZATION})
  if(PW_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM pw_precompiled_test_headers)
  endif()
endfunction()

if(NOT PW_PRECOMPILE)
  return()
endif()
add_compile_options(-fpch-preprocess)  # for ccache
set(headers
  <algorithm> <atomic> <cstdint> <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <set> <string> <string_view> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/functional/any_invocable.h> <absl/status/statusor.h>
  <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/time/time.h> <absl/types/span.h>
  <google/protobuf/extension_set.h> <google/protobuf/generated_message_util.h> <google/protobuf/map_entry.h>
  <google/protobuf/map_field_inl.h> <google/protobuf/message.h> <google/protobuf/unknown_field_set.h>)

# Libraries are compiled as position-independent code, tests as a position-independent executable: a precompiled header serves one of them.
add_library(pw_precompiled_headers STATIC "${PROJECT_SOURCE_DIR}/cmake/link_test_main.cc")
target_precompile_headers(pw_precompiled_headers PRIVATE ${headers})

add_executable(pw_precompiled_test_headers "${PROJECT_SOURCE_DIR}/cmake/link_test_main.cc")
target_link_libraries(pw_precompiled_test_headers PRIVATE GTest::gmock)
target_compile_options(pw_precompiled_test_headers PRIVATE ${PW_TEST_OPTIMIZATION})
target_precompile_headers(pw_precompiled_test_headers PRIVATE ${headers} <gmock/gmock.h> <gtest/gtest.h>)
