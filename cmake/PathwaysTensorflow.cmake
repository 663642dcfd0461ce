# Finds the tensorflow-cpu wheel, and takes from it the few C headers that a PJRT host needs.
#
# PW_TENSORFLOW_DIR is the installed `tensorflow` folder; PW_PYTHON is an interpreter that has it. The wheel is never imported. The
# headers are linked into a folder of their own: the wheel's include folder also has another protobuf and XLA's C++ headers, which
# only the plugin may see.
include("${CMAKE_CURRENT_LIST_DIR}/TensorflowFolder.cmake")
if(NOT EXISTS "${PW_TENSORFLOW_DIR}/include/xla/pjrt/c/pjrt_c_api.h")
  message(FATAL_ERROR "The worker needs the PJRT headers of the tensorflow-cpu 2.21.0 wheel: 'pip install tensorflow-cpu==2.21.0' into the "
                      "interpreter named by PW_PYTHON, or set PW_TENSORFLOW_DIR to its tensorflow folder (now '${PW_TENSORFLOW_DIR}').")
endif()

set(PW_PJRT_HEADERS "${PROJECT_BINARY_DIR}/pjrt_headers")
foreach(header IN ITEMS xla/pjrt/c/pjrt_c_api.h xla/pjrt/c/pjrt_c_api_ffi_extension.h xla/pjrt/c/pjrt_c_api_layouts_extension.h
        xla/pjrt/c/pjrt_c_api_profiler_extension.h xla/backends/profiler/plugin/profiler_c_api.h xla/ffi/api/c_api.h)
  get_filename_component(folder "${PW_PJRT_HEADERS}/${header}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${PW_TENSORFLOW_DIR}/include/${header}" "${PW_PJRT_HEADERS}/${header}" SYMBOLIC)
endforeach()
