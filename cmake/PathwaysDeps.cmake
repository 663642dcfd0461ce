# Third-party libraries. All are linked statically into our executables, because the wheel must not depend on libraries of a user's
# machine. A device plugin brings its own protobuf and abseil into the same process: only static, hidden copies of ours can exist
# beside them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_program(PW_PROTOC protoc REQUIRED)
find_program(PW_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# pw_static_library(<target> <pkg-config module>...): an interface target with the static closure of the modules.
function(pw_static_library target)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --static --libs-only-l ${ARGN}
                  OUTPUT_VARIABLE libs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(libs UNIX_COMMAND "${libs}")
  set(archives "")
  set(shared "")
  foreach(lib IN LISTS libs)
    string(REGEX REPLACE "^-l" "" name "${lib}")
    find_library(PW_ARCHIVE_${name} NAMES lib${name}.a)
    if(PW_ARCHIVE_${name} AND NOT name MATCHES "^(rt|dl|pthread|atomic|m)$")
      list(APPEND archives "${PW_ARCHIVE_${name}}")
    else()
      list(APPEND shared "${name}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES archives)
  list(REMOVE_DUPLICATES shared)
  list(FILTER shared EXCLUDE REGEX "^-|^pthread$")
  add_library(${target} INTERFACE)
  # The group is one argument: CMake drops repeated items of a link line, and two libraries of ours may bring the same archives.
  list(JOIN archives "," group)
  target_link_libraries(${target} INTERFACE "-Wl,--start-group,${group},--end-group" ${shared} Threads::Threads)
endfunction()

pw_static_library(pw_third_party_absl absl_status absl_statusor absl_strings absl_str_format absl_flat_hash_map
                  absl_flat_hash_set absl_synchronization absl_time absl_any_invocable absl_span absl_inlined_vector absl_symbolize)
pw_static_library(pw_third_party_protobuf protobuf)
pw_static_library(pw_third_party_crypto libcrypto)
pw_static_library(pw_third_party_sqlite sqlite3)
pw_static_library(pw_third_party_ssl libssl)
pw_static_library(pw_third_party_grpc grpc++ protobuf)

find_package(GTest REQUIRED)

# MLIR 19, for pathways/ir. The archives of MLIR and of LLVM's support library suffice (some 4 MB of a binary, nothing at run time).
# The targets of find_package(MLIR) would need libLLVM.so, 130 MB.
find_path(PW_MLIR_INCLUDE mlir/IR/MLIRContext.h HINTS /usr/lib/llvm-19/include REQUIRED)
find_path(PW_MLIR_LIB libMLIRIR.a HINTS /usr/lib/llvm-19/lib REQUIRED)
find_program(PW_MLIR_TBLGEN mlir-tblgen HINTS /usr/lib/llvm-19/bin REQUIRED)
set(archives "")
foreach(lib IN ITEMS MLIROptLib MLIRDebug MLIRObservers MLIRPluginsLib MLIRReduce MLIRIRDL MLIRTransforms MLIRTransformUtils MLIRRewrite
                     MLIRRewritePDL MLIRPDLToPDLInterp MLIRPDLInterpDialect MLIRPDLDialect MLIRFunctionInterfaces MLIRCallInterfaces
                     MLIRControlFlowInterfaces MLIRCopyOpInterface MLIRDataLayoutInterfaces MLIRInferTypeOpInterface MLIRLoopLikeInterface
                     MLIRRuntimeVerifiableOpInterface MLIRMemorySlotInterfaces MLIRSubsetOpInterface MLIRValueBoundsOpInterface MLIRDestinationStyleOpInterface
                     MLIRSideEffectInterfaces MLIRAnalysis MLIRPass MLIRParser MLIRBytecodeReader MLIRBytecodeWriter MLIRBytecodeOpInterface MLIRAsmParser MLIRIR
                     MLIRSupport LLVMSupport LLVMDemangle)
  if(EXISTS "${PW_MLIR_LIB}/lib${lib}.a")
    list(APPEND archives "${PW_MLIR_LIB}/lib${lib}.a")
  endif()
endforeach()
list(JOIN archives "," group)
add_library(pw_third_party_mlir INTERFACE)
target_include_directories(pw_third_party_mlir SYSTEM INTERFACE "${PW_MLIR_INCLUDE}")
target_link_libraries(pw_third_party_mlir INTERFACE "-Wl,--start-group,${group},--end-group" ${CMAKE_DL_LIBS} Threads::Threads)

# jemalloc, as one object, so that the whole process uses its malloc, including device plugins: symbols of archives are hidden in our
# binaries. In every call, one thread frees the memory of another; the C library's allocator took half of a worker's time for that.
set(PW_JEMALLOC_OBJECT "")
if(NOT PW_SANITIZE)
  find_library(PW_JEMALLOC libjemalloc.a REQUIRED)
  set(PW_JEMALLOC_OBJECT "${PROJECT_BINARY_DIR}/jemalloc.o")
  if(NOT EXISTS "${PW_JEMALLOC_OBJECT}")
    execute_process(COMMAND ${CMAKE_LINKER} -r --whole-archive "${PW_JEMALLOC}" -o "${PW_JEMALLOC_OBJECT}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endif()
