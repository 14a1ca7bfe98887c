// What `--version` prints and what both sides of a connection compare.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Raised when an older peer could misunderstand a message. 3: notices are numbered, and withdrawn.
inline constexpr uint32_t kProtocolVersion = 3;
// The oldest that a controller still understands: it is upgraded first. It refuses other peers.
inline constexpr uint32_t kOldestPeer = 2;

// "0.1.0"
std::string Version();

// The commit that the program was built from, "0123...ef", with "-dirty" when files differed from
// it; "unknown" for sources without a repository. Of the library common_code_version: what links it
// is linked again after each commit.
std::string CodeVersion();

// "musterd 0.1.0 (protocol 3, commit 0123456789ab)"; the commit where main has set it (code_version.h)
std::string VersionLine(const std::string& program);

}  // namespace muster
