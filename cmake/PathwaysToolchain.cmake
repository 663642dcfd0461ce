# Language level, warnings, sanitizers and ccache, for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(PW_CCACHE ccache)
if(PW_CCACHE)
  # ccache needs these settings for precompiled headers (PathwaysPrecompiled.cmake).
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${PW_CCACHE}")
endif()

set(PW_SANITIZE "" CACHE STRING "Sanitizers of this build: empty, 'address,undefined' or 'thread'")
if(PW_SANITIZE)
  add_compile_options(-fsanitize=${PW_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${PW_SANITIZE})
  if(PW_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

option(PW_THREAD_SAFETY_ANALYSIS "Compile with clang's -Wthread-safety as errors" OFF)

# Warnings apply to our folders only; generated protobuf code and third-party headers are system code.
add_library(pw_warnings INTERFACE)
target_compile_options(pw_warnings INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
# Continuous integration treats warnings of g++ as errors. Other builds do not: a developer's newer g++, and clang, have other
# warnings, and g++ has false ones under sanitizers.
set(werror OFF)
if("$ENV{CI}" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PW_SANITIZE)
  set(werror ON)
endif()
option(PW_WERROR "Warnings are errors; ON where the environment variable CI is set" ${werror})
if(PW_WERROR)
  target_compile_options(pw_warnings INTERFACE -Werror)
endif()
if(PW_THREAD_SAFETY_ANALYSIS)
  target_compile_options(pw_warnings INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
