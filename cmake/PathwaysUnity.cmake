# Compiles the sources of a folder several at a time: most of the time of compiling one is spent on instantiating the same templates of
# the standard library, abseil, protobuf and gmock as its neighbours. Six tests of a folder take a third of the time that they take one
# by one.
#
#   pw_unity(<target>)    a library or a test of ours
#
# So names in unnamed namespaces must be unique in a folder, and helpers of two tests are in a header for tests. Off in builds by clang
# and under sanitizers: these check that every file compiles alone. For editing one file again and again, turn it off by
# cmake --preset release -DPW_UNITY=OFF.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PW_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(unity ON)
else()
  set(unity OFF)
endif()
option(PW_UNITY "Compile several sources of a folder at a time" ${unity})

function(pw_unity target)
  if(PW_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()
