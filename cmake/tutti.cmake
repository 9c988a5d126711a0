# One folder, one target: tutti_module(NAME [SOURCES ...] [DEPENDS ...]) and, beside the code, tutti_test.

# A static module of the library. DEPENDS shows in the build which way includes may go.
function(tutti_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(tutti_${name} STATIC ${ARG_SOURCES})
  target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM ARG_DEPENDS PREPEND tutti_ OUTPUT_VARIABLE modules)
  target_link_libraries(tutti_${name} PUBLIC ${modules} PRIVATE ${ARG_PRIVATE})
endfunction()

# Unit tests of a module: tutti_test(NAME [PURE] SOURCES ... DEPENDS ... [TIMEOUT seconds]).
# PURE: one thread computes; nothing for a thread sanitizer.
function(tutti_test name)
  if(NOT TUTTI_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "PURE" "TIMEOUT" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name}_test ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND tutti_ OUTPUT_VARIABLE modules)
  target_link_libraries(${name}_test PRIVATE ${modules} ${ARG_LIBRARIES} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  if(ARG_PURE)
    set_tests_properties(${name} PROPERTIES LABELS pure)
  endif()
endfunction()
