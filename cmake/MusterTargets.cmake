# muster_library(common_base SOURCES a.cc DEPS absl::status)
#   One target or two for a folder, cli's for all of its folders. DEPS by hand; which includes are allowed stands in
#   tests/arrows/arrow_rules.cc.
# muster_binary(muster-worker SOURCES main.cc DEPS worker_agent)
# muster_test(common_base_test SOURCES clock_test.cc DEPS common_base [LABELS integration] [TIMEOUT 120])
#   A GoogleTest program, one ctest entry, labelled `unit` unless LABELS says otherwise. SEPARATE: no unity build, since
#   its sources have names in common.
# TORCH on any of them: the target sees LibTorch. Nothing that links TORCH may link gRPC or protobuf.
function(_muster_common target)
  cmake_parse_arguments(ARG "TORCH" "" "DEPS" ${ARGN})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE muster_warnings)
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC LibTorch::LibTorch)
    set_target_properties(${target} PROPERTIES BUILD_RPATH "${LibTorch_RPATH}")
  endif()
endfunction()

function(muster_library target)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  # Many sources in one: headers are read once for all of them. An edit of one compiles all again.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
  endif()
  _muster_common(${target} ${torch} DEPS ${ARG_DEPS})
endfunction()

function(muster_binary target)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
  endif()
  _muster_common(${target} ${torch} DEPS ${ARG_DEPS})
endfunction()

# Links the program's libraries from their archives where they have one (see link-static). Not under sanitizers, and only
# with mold, which does not mind the order of archives.
function(muster_link_statically target)
  if(MOLD AND NOT MUSTER_SANITIZER)
    # abseil's time needs them; as shared objects they come by themselves.
    target_link_libraries(${target} PRIVATE absl::civil_time absl::time_zone)
    set_target_properties(${target} PROPERTIES CXX_LINKER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/link-static)
  endif()
endfunction()

function(muster_test target)
  cmake_parse_arguments(ARG "TORCH;SEPARATE" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
  endif()
  _muster_common(${target} ${torch} DEPS ${ARG_DEPS} tests_support GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT ARG_SEPARATE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${MUSTER_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  endif()
  # A test's own files run once: more would only make them a quarter longer to build.
  target_compile_options(${target} PRIVATE -O1)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(MUSTER_SANITIZER)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "MUSTER_BIN_DIR=${CMAKE_BINARY_DIR}/bin;MUSTER_SOURCE_DIR=${CMAKE_SOURCE_DIR};TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/lsan.supp")
endfunction()
