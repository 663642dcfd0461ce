# Registers a binary of tests with ctest. Its results are in gtest/<name>.xml of the build tree. With a number of processes, each
# runs its share of the tests: <name>.0, <name>.1 ... Sets <name>_tests to these names.
function(pw_add_tests name binary)
  set(shares ${ARGN} 1)
  list(GET shares 0 shares)
  set(names "")
  math(EXPR last "${shares} - 1")
  foreach(share RANGE ${last})
    set(test ${name})
    if(shares GREATER 1)
      set(test ${name}.${share})
    endif()
    add_test(NAME ${test} COMMAND ${binary})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${shares};GTEST_SHARD_INDEX=${share};GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${test}.xml")
    list(APPEND names ${test})
  endforeach()
  set(${name}_tests "${names}" PARENT_SCOPE)
endfunction()
