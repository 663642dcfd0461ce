# Sets PW_TENSORFLOW_DIR, the folder of the installed tensorflow package. Asks an interpreter (PW_PYTHON, or the checkout's) without
# importing tensorflow, which takes seconds.
set(PW_TENSORFLOW_DIR "" CACHE PATH "Folder of the installed tensorflow package (tensorflow-cpu 2.21.0)")
if(NOT PW_TENSORFLOW_DIR)
  foreach(python IN ITEMS "${PW_PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/../build/venv/bin/python")
    if(python AND EXISTS "${python}" AND NOT PW_TENSORFLOW_DIR)
      execute_process(
        COMMAND "${python}" -c "import importlib.util as u; s = u.find_spec('tensorflow'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      set(PW_TENSORFLOW_DIR "${found}" CACHE PATH "Folder of the installed tensorflow package (tensorflow-cpu 2.21.0)" FORCE)
    endif()
  endforeach()
endif()
