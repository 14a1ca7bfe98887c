// Whether this machine can run containers by podman, and the image that tests run in them: one
// static program, tests/support/container_program.cc, brought by `podman import`, since no
// registry need be near.
//
// A machine whose podman cannot run the image by hand is passed over, and the reason printed; where
// it can, the tests must run.
#pragma once

#include <string>

#include "tests/support/subprocess.h"

namespace muster::testing {

inline constexpr char kTestImage[] = "localhost/muster-test:1";
inline constexpr char kTestProgram[] = "/muster-test-program";

class ContainerHost {
 public:
  // Imports the image, and finds the settings with which podman runs it here: its own, or runc with
  // limits that need no privilege. `folder` is the test's.
  explicit ContainerHost(const std::string& folder);

  // Empty: containers run here. Else why they do not.
  const std::string& reason() const { return reason_; }
  // What podman needs in its environment here.
  const Environment& environment() const { return environment_; }

  // Names of the containers that there are, ended ones too, whose name begins so.
  std::string Containers(const std::string& prefix) const;

 private:
  std::string TryToRun() const;

  Environment environment_;
  std::string reason_;
};

}  // namespace muster::testing
