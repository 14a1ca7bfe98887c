// The `muster` command.
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli/app.h"
#include "common/base/log.h"
#include "common/fs/file_system.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  muster::SetLogProgram("muster");
  // Between two blocking calls only gRPC's backup poller sees that a connection came or failed,
  // every 5 s by default: whoever asks again and again would not find a controller that is back.
  ::setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);
  google::protobuf::SetLogHandler(nullptr);  // errors that concern people are told in their words
  muster::cli::Host host = muster::cli::ProcessHost();
  host.ends_process = true;
  try {
    const int code = muster::cli::RunMuster(std::vector<std::string>(argv + 1, argv + argc), host,
                                            muster::PosixFileSystem());
    std::cout.flush();
    std::cerr.flush();
    // Nothing is left to do: taking gRPC's threads down would take longer than most commands.
    ::_exit(code);
  } catch (const std::exception& error) {
    std::cerr << "muster: internal error: " << error.what() << std::endl;
    return 1;
  }
}
