# The public headers of the rooms, the CMake package `find_package(shoal)` (component cxx) and what a wheel carries
# beside the Python sources (component python). Included once, after shoal_core and all rooms are declared.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(public_headers GLOBAL PROPERTY SHOAL_PUBLIC_HEADERS)
list(SORT public_headers)
list(TRANSFORM public_headers PREPEND "shoal/")
list(JOIN public_headers "\n" header_lines)
# Read by tools/check_public.py and the documentation site.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/public_headers.txt" CONTENT "${header_lines}\n")

list(TRANSFORM public_headers PREPEND "${PROJECT_SOURCE_DIR}/src/" OUTPUT_VARIABLE header_files)
# With the file set, the build can also compile every public header on its own (target all_verify_interface_header_sets).
target_sources(shoal_core PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${header_files})
target_compile_features(shoal_core PUBLIC cxx_std_20)
set_target_properties(shoal_core PROPERTIES EXPORT_NAME core INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)

install(TARGETS shoal_core EXPORT shoalTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cxx
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cxx)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/shoal")
install(EXPORT shoalTargets NAMESPACE shoal:: DESTINATION "${package_dir}" COMPONENT cxx)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shoalConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/shoalConfig.cmake" INSTALL_DESTINATION "${package_dir}")
# Before 1.0 the interface may change with every minor version.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/shoalConfig.cmake" "${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT cxx)

# A wheel carries the third-party libraries that shoal_core needs and a bare machine lacks; $ORIGIN finds them.
install(CODE "set(core \"$<TARGET_FILE:shoal_core>\")" COMPONENT python)
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/ShoalVendor.cmake" COMPONENT python)
