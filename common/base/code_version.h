// The commit that the program was built from, for its version line.
#pragma once

#include <string>

namespace muster {

// Call it first thing in main, with CodeVersion() (version.h): so only programs are linked again
// after a commit, and no test.
void SetCommit(const std::string& code_version);

// As it was set, with the hash cut to twelve digits: "0123456789ab-dirty"; empty when it was not.
std::string Commit();

}  // namespace muster
