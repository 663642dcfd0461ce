# Sources of a folder compiled several at a time: most of what compiling one costs is instantiating the same templates of the standard
# library, abseil, protobuf and gmock as its neighbours do. Six tests of a folder take a third of what they take one by one.
#
#   pw_unity(<target>)    a library or a test of ours
#
# Names in the unnamed namespaces of a folder's sources are therefore its own, and what two tests need stands in a header for tests.
# Off in builds by clang and under sanitizers: those prove that every file compiles alone. Off as well for who edits one file again
# and again: cmake --preset release -DPW_UNITY=OFF.
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
