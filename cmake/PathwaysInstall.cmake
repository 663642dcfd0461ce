# The contents of the wheel, as the install component `wheel`; paths are relative to site-packages. The target `wheel_contents`
# builds exactly these.
function(pw_install_wheel)
  add_custom_target(wheel_contents)
  foreach(binary IN ITEMS pathways-agent pathways-local pathways-controller pathways-worker)
    if(TARGET ${binary})
      install(TARGETS ${binary} RUNTIME DESTINATION pathways/bin COMPONENT wheel)
      add_dependencies(wheel_contents ${binary})
    endif()
  endforeach()
  foreach(plugin IN ITEMS pjrt_cpu pathways_pjrt pathways_profiler)
    if(TARGET ${plugin})
      install(TARGETS ${plugin} LIBRARY DESTINATION pathways/lib COMPONENT wheel)
      add_dependencies(wheel_contents ${plugin})
    endif()
  endforeach()
  if(TARGET pathways_pjrt)
    # The shared libraries that it needs (plugins/pathways_pjrt/CMakeLists.txt), each once, under the name that the loader looks up.
    install(CODE "
      file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:pathways_pjrt>\" RESOLVED_DEPENDENCIES_VAR libraries
           PRE_INCLUDE_REGEXES ^libabsl_ ^libatomic ^libprotobuf PRE_EXCLUDE_REGEXES .*)
      foreach(library IN LISTS libraries)
        get_filename_component(name \"\${library}\" NAME)
        file(REAL_PATH \"\${library}\" real)
        file(INSTALL \"\${real}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/pathways/lib\" TYPE FILE RENAME \"\${name}\")
      endforeach()" COMPONENT wheel)
  endif()
  # The operators' page, if tools/page.sh has built it.
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/build/page/dist/ DESTINATION pathways/page COMPONENT wheel OPTIONAL)
  install(FILES python/pathways.pth DESTINATION . COMPONENT wheel)
endfunction()
