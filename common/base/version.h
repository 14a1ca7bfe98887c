// What `--version` prints and what both sides of a connection compare.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Raised when an older peer could misunderstand a message. Peers with another number are refused.
inline constexpr uint32_t kProtocolVersion = 2;

// "0.1.0"
std::string Version();

// The commit that the program was built from, "0123...ef", with "-dirty" when files differed from
// it; "unknown" for sources without a repository.
std::string CodeVersion();

// "musterd 0.1.0 (protocol 2)"
std::string VersionLine(const std::string& program);

}  // namespace muster
