// Whether this machine can run containers by podman, and the image that tests run in them: one
// static program, tests/support/container_program.cc, brought by `podman import`, since no
// registry need be near.
//
// A machine whose podman cannot run the image by hand is passed over, and the reason printed; where
// it can, the tests must run. Where CI is set, podman that is installed must be able to; where
// MUSTER_ALL_TOOLS is set, it must be installed, too.
#pragma once

#include <string>

#include "tests/support/temp_dir.h"

namespace muster::testing {

inline constexpr char kTestImage[] = "localhost/muster-test:1";
inline constexpr char kTestProgram[] = "/muster-test-program";

class ContainerHost {
 public:
  // Of this process, made at the first call: imports the image, and finds the settings with which
  // podman runs it here, its own, or runc with limits that need no privilege. They are in this
  // process's environment from then on, and so in that of all that it starts.
  static const ContainerHost& Get();

  // Empty: containers run here. Else why they do not.
  const std::string& reason() const { return reason_; }
  // They must run here: a test that cannot fails.
  bool is_required() const { return is_required_; }

  // Names of the containers that there are, ended ones too, that match the expression; a line each.
  std::string Containers(const std::string& expression) const;

 private:
  ContainerHost();
  std::string FindSettings();

  TempDir dir_;
  std::string reason_;
  bool is_required_ = false;
};

// For SetUp of a test: ends it unless containers run here.
#define MUSTER_NEEDS_CONTAINERS()                                                        \
  do {                                                                                   \
    const auto& host = ::muster::testing::ContainerHost::Get();                          \
    if (!host.reason().empty() && host.is_required()) FAIL() << host.reason();           \
    if (!host.reason().empty()) GTEST_SKIP() << "no containers here: " << host.reason(); \
  } while (false)

}  // namespace muster::testing
