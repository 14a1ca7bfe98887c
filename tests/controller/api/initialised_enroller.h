// An enroller with a CA of its own, as `musterd init` makes one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "controller/enroll/enroller.h"
#include "controller/setup/setup_command.h"

namespace muster::controller {

inline absl::StatusOr<std::unique_ptr<Enroller>> OpenEnrollerIn(const std::string& folder,
                                                                Clock& clock) {
  const char* argv[] = {"musterd", "init", "--data-dir", folder.c_str()};
  MUSTER_RETURN_IF_ERROR(RunSetupCommand(4, argv, PosixFileSystem(), clock.Now()).status());
  EnrollerOptions options;
  options.data_dir = folder;
  options.tls = {folder + "/tls/ca.pem", folder + "/tls/server.pem", folder + "/tls/server.key"};
  return Enroller::Open(options, PosixFileSystem(), clock);
}

}  // namespace muster::controller
