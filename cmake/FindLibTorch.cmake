# Finds LibTorch inside the torch wheel of a virtual environment, and defines LibTorch::LibTorch.
#
# The wheel's own TorchConfig.cmake wants a whole CUDA toolkit next to a CUDA wheel, so it is not used.
#   MUSTER_VENV   the virtual environment: -DMUSTER_VENV=, else the environment variable, else <source>/.venv
#   MUSTER_CUDA   AUTO: CUDA when the wheel has libtorch_cuda.so and its headers are found; ON: or fail; OFF
# Sets LibTorch_VERSION, LibTorch_CUDA (ON or OFF), LibTorch_PYTHON, LibTorch_RPATH (where a build finds its libraries; an
# installed program finds them by worker/trainer/launcher).
if(NOT MUSTER_VENV)
  if(DEFINED ENV{MUSTER_VENV})
    set(MUSTER_VENV $ENV{MUSTER_VENV} CACHE PATH "Virtual environment that holds the torch wheel")
  else()
    set(MUSTER_VENV ${CMAKE_SOURCE_DIR}/.venv CACHE PATH "Virtual environment that holds the torch wheel")
  endif()
endif()
set(LibTorch_PYTHON ${MUSTER_VENV}/bin/python)
execute_process(
  COMMAND ${LibTorch_PYTHON} -c "import importlib.util as u, importlib.metadata as m; print(u.find_spec('torch').submodule_search_locations[0], m.version('torch'), sep=';')"
  OUTPUT_VARIABLE _out ERROR_VARIABLE _err RESULT_VARIABLE _rc OUTPUT_STRIP_TRAILING_WHITESPACE)
if(_rc EQUAL 0)
  list(GET _out 0 LibTorch_ROOT)
  list(GET _out 1 LibTorch_VERSION)
  set(_lib ${LibTorch_ROOT}/lib)
  get_filename_component(_site ${LibTorch_ROOT} DIRECTORY)
endif()

set(LibTorch_CUDA OFF)
if(LibTorch_ROOT AND NOT MUSTER_CUDA STREQUAL "OFF" AND EXISTS ${_lib}/libtorch_cuda.so)
  # The toolkit's headers come from the nvidia-* wheels beside torch, or from an installed toolkit.
  find_path(LibTorch_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ${_site}/nvidia/cu13/include /usr/local/cuda/include NO_CACHE)
  find_path(LibTorch_NCCL_INCLUDE nccl.h HINTS ${_site}/nvidia/nccl/include NO_CACHE)
  # The wheel's library has no name without its version, so find_library alone would miss it.
  file(GLOB LibTorch_CUDART ${_site}/nvidia/cu13/lib/libcudart.so.*)
  if(NOT LibTorch_CUDART)
    find_library(LibTorch_CUDART NAMES cudart HINTS /usr/local/cuda/lib64 NO_CACHE)
  endif()
  if(LibTorch_CUDA_INCLUDE AND LibTorch_NCCL_INCLUDE AND LibTorch_CUDART
      AND EXISTS ${LibTorch_CUDA_INCLUDE}/crt/host_config.h)
    set(LibTorch_CUDA ON)
  endif()
endif()
if(MUSTER_CUDA STREQUAL "ON" AND NOT LibTorch_CUDA)
  message(FATAL_ERROR "MUSTER_CUDA=ON, but the torch wheel in ${MUSTER_VENV} has no CUDA, or CUDA's headers "
    "(cuda_runtime_api.h, crt/host_config.h, nccl.h) were not found: scripts/check-cuda-build shows what is needed")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_ROOT VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "no torch in ${MUSTER_VENV}: run scripts/setup, or configure with -DMUSTER_TRAINER=OFF")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_ROOT}/include ${LibTorch_ROOT}/include/torch/csrc/api/include)
  target_compile_definitions(LibTorch::LibTorch INTERFACE USE_C10D_GLOO)
  set(_libs ${_lib}/libtorch.so ${_lib}/libtorch_cpu.so ${_lib}/libc10.so)
  set(LibTorch_RPATH ${_lib})
  if(LibTorch_CUDA)
    # cccl holds nv/target, which a toolkit has beside its other headers and the wheels in a folder of its own.
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
      ${LibTorch_CUDA_INCLUDE} ${LibTorch_CUDA_INCLUDE}/cccl ${LibTorch_NCCL_INCLUDE})
    target_compile_definitions(LibTorch::LibTorch INTERFACE USE_C10D_NCCL MUSTER_WITH_CUDA)
    list(APPEND _libs ${_lib}/libtorch_cuda.so ${_lib}/libc10_cuda.so ${LibTorch_CUDART})
    file(GLOB _nvidia ${_site}/nvidia/*/lib)
    list(APPEND LibTorch_RPATH ${_nvidia})
  endif()
  # --as-needed would drop the libraries that only register operators.
  set(_link "-Wl,--no-as-needed" ${_libs} "-Wl,--as-needed")
  target_link_libraries(LibTorch::LibTorch INTERFACE ${_link})
endif()
