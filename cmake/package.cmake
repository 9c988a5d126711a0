# libtutti.so, made of the run-time modules, and what lets other projects find it: find_package(tutti), pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET tutti_communicator)
  file(WRITE ${CMAKE_BINARY_DIR}/tutti.cc "")
  add_library(tutti SHARED ${CMAKE_BINARY_DIR}/tutti.cc)
  add_library(tutti::tutti ALIAS tutti)
  # The modules that hold the public API go in whole; the linker takes what these need of the others.
  foreach(module base memory bootstrap monitor communicator)
    list(APPEND modules tutti_${module})
  endforeach()
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  add_dependencies(tutti ${modules})
  target_link_options(tutti PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
    -Wl,-z,nodelete)  # its threads and its handler of signals outlive dlclose()
  if(NOT TUTTI_SANITIZE)  # a sanitizer's run-time comes from the program
    target_link_options(tutti PRIVATE -Wl,-z,defs)
  endif()
  target_link_libraries(tutti PRIVATE ${modules})
  target_include_directories(tutti INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(tutti PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/exports.map;${archives}")
  target_compile_features(tutti INTERFACE cxx_std_20)

  install(TARGETS tutti EXPORT tutti-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tutti-config.cmake.in
    ${CMAKE_BINARY_DIR}/tutti-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/tutti-config.cmake ${CMAKE_BINARY_DIR}/tutti-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
  file(RELATIVE_PATH PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" PREFIX_FROM_PC ${PREFIX_FROM_PC})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${CMAKE_BINARY_DIR}/tutti.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET tutti_command)
  install(TARGETS tutti_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
