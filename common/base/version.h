// What `--version` prints and what both sides of a connection compare.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Raised when an older peer could misunderstand a message. Peers with another number are refused.
inline constexpr uint32_t kProtocolVersion = 1;

// "0.1.0"
std::string Version();

// "musterd 0.1.0 (protocol 1)"
std::string VersionLine(const std::string& program);

}  // namespace muster
