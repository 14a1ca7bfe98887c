# Writes OUT, a header that names the commit that SOURCE_DIR is built from, when it changed; `unknown` without a repository.
# Run at each build:
#   cmake -DSOURCE_DIR=... -DOUT=... -P write_code_version.cmake
find_package(Git QUIET)
set(version "unknown")
if(GIT_FOUND)
  # git reads no repository of another user's unless it is told to: root builds a person's clone in a container.
  execute_process(COMMAND ${GIT_EXECUTABLE} -c safe.directory=${SOURCE_DIR} describe --always --dirty --abbrev=40 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE out RESULT_VARIABLE rc ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(rc EQUAL 0)
    set(version ${out})
  endif()
endif()
set(text "#define MUSTER_CODE_VERSION \"${version}\"\n")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUT} "${text}")
endif()
