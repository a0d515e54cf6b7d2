# Install script: copies the third-party libraries that ${core} needs beside it, under the names it looks for.
set(vendored "^lib(hwy|isal|uring|xxhash)\\.so")

file(GET_RUNTIME_DEPENDENCIES LIBRARIES "${core}" RESOLVED_DEPENDENCIES_VAR found
  PRE_INCLUDE_REGEXES "${vendored}" PRE_EXCLUDE_REGEXES ".*")
file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/shoal")
foreach(library IN LISTS found)
  get_filename_component(name "${library}" NAME)
  file(REAL_PATH "${library}" real)
  set(target "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/shoal/${name}")
  message(STATUS "Vendoring: ${target}")
  file(COPY_FILE "${real}" "${target}" ONLY_IF_DIFFERENT)
endforeach()
