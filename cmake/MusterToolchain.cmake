# Compiler settings of every target: warnings as errors, ccache, a fast linker where there is one, sanitizers.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE
  -Wall -Wextra -Werror -Wunused-result -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers)
if(MUSTER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It takes a source that is included for a header.
  target_compile_options(muster_warnings INTERFACE -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(muster_warnings INTERFACE -Wthread-safety)
endif()

if(MUSTER_SANITIZER)
  add_compile_options(-fsanitize=${MUSTER_SANITIZER} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MUSTER_SANITIZER})
endif()

if(MUSTER_FUZZ)
  # Coverage in every object, so that the fuzzer sees which input reached something new.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

# Paths of this machine stay out of the binaries (and equal sources hit the same ccache entry in any clone).
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
