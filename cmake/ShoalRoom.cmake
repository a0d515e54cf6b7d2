# shoal_room(NAME SOURCES a.cc ... [DEPENDS room ...] [LIBRARIES lib ...] [TESTS a_test.cc ...] [HEADERS a.h ...])
#
# Declares the torch-free room src/shoal/NAME: a static library shoal_NAME (its objects end up in libshoal_core.so)
# and one test binary per file in TESTS, registered with CTest under the label NAME.
# DEPENDS names rooms to the left of an arrow; LIBRARIES are third-party and private to .cc files;
# HEADERS is the installed public surface.
function(shoal_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES;TESTS;HEADERS;TEST_LIBRARIES" ${ARGN})
  add_library(shoal_${name} STATIC ${ARG_SOURCES})
  target_include_directories(shoal_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(shoal_${name} PRIVATE "$<BUILD_INTERFACE:shoal_options>" ${ARG_LIBRARIES})
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(shoal_${name} PUBLIC shoal_${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SHOAL_ROOMS shoal_${name})
  foreach(header IN LISTS ARG_HEADERS)
    set_property(GLOBAL APPEND PROPERTY SHOAL_PUBLIC_HEADERS "${name}/${header}")
  endforeach()
  if(SHOAL_BUILD_TESTS)
    foreach(source IN LISTS ARG_TESTS)
      get_filename_component(test "${source}" NAME_WE)
      add_executable(${name}_${test} ${source})
      target_link_libraries(${name}_${test} PRIVATE shoal_${name} shoal_options GTest::gtest GTest::gtest_main
        ${ARG_LIBRARIES} ${ARG_TEST_LIBRARIES})
      add_test(NAME ${name}.${test} COMMAND ${name}_${test})
      set_tests_properties(${name}.${test} PROPERTIES LABELS ${name} TIMEOUT 120)
    endforeach()
  endif()
endfunction()
