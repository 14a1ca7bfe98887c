// The `muster` command.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli/app.h"
#include "common/base/code_version.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/fs/file_system.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  muster::SetLogProgram("muster");
  muster::SetCommit(muster::CodeVersion());
  // Errors that concern people are told in their words.
  google::protobuf::SetLogHandler(nullptr);
  ::gpr_set_log_function([](gpr_log_func_args*) {});
  muster::cli::Host host = muster::cli::ProcessHost();
  try {
    const int code = muster::cli::RunMuster(std::vector<std::string>(argv + 1, argv + argc), host,
                                            muster::PosixFileSystem());
    std::cout.flush();
    std::cerr.flush();
    // gRPC may still be coming down on a thread of its own, which must not meet the destructors of
    // static objects.
    ::_exit(code);
  } catch (const std::exception& error) {
    std::cerr << "muster: internal error: " << error.what() << std::endl;
    return 1;
  }
}
