// What `command.image` may be: a reference to a registry's or a local image, or a .sif file.
//
// The texts become words of a container runtime's command line: nothing that passes here can be
// taken for an option, or for another of podman's transports (docker-archive:, dir:, ...). Pure.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kMostImageBytes = 512;

// It names a file of the worker, which apptainer alone runs.
inline bool IsImageFile(absl::string_view image) { return !image.empty() && image[0] == '/'; }

// [HOST[:PORT]/]NAME[/NAME]...[:TAG][@sha256:HEX]
bool IsImageReference(absl::string_view text);

}  // namespace muster
