# The torch line: finds the libtorch of the Python in use without find_package(Torch), which demands a CUDA
# toolkit when torch was built with CUDA. Defines shoal_torch_deps (headers, libraries, C++ ABI) and the variables
# SHOAL_TORCH_VERSION, SHOAL_TORCH_ROOT, SHOAL_PYTHON_MODULE_SUFFIX.
find_package(Python 3.11 COMPONENTS Interpreter Development.Module REQUIRED)

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
    "import importlib.util as u, sys; s = u.find_spec('torch'); sys.exit('torch is not installed for ' + sys.executable) if s is None else None; print(s.submodule_search_locations[0])"
  OUTPUT_VARIABLE SHOAL_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing
  ERROR_VARIABLE torch_error)
if(torch_missing)
  message(FATAL_ERROR "shoal: ${torch_error}")
endif()
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import torch.version as v; print(v.__version__)"
  OUTPUT_VARIABLE SHOAL_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

add_library(shoal_torch_deps INTERFACE)
target_include_directories(shoal_torch_deps SYSTEM INTERFACE
  "${SHOAL_TORCH_ROOT}/include" "${SHOAL_TORCH_ROOT}/include/torch/csrc/api/include")
target_compile_definitions(shoal_torch_deps INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
foreach(lib c10 torch_cpu torch torch_python)
  find_library(SHOAL_LIB_${lib} ${lib} PATHS "${SHOAL_TORCH_ROOT}/lib" NO_DEFAULT_PATH REQUIRED)
endforeach()
target_link_libraries(shoal_torch_deps INTERFACE "${SHOAL_LIB_c10}" "${SHOAL_LIB_torch_cpu}" "${SHOAL_LIB_torch}")
message(STATUS "shoal: torch ${SHOAL_TORCH_VERSION} at ${SHOAL_TORCH_ROOT}")
