// Which versions of the libraries decode pictures here: another one may round a pixel in another
// way. Used for the record of a run. Any thread.
#pragma once

#include <map>
#include <string>

namespace muster::worker {

// "libjpeg", "libpng" and "libwebp". That of libjpeg-turbo is the one that this was built with: the
// library does not tell its own.
std::map<std::string, std::string> DecoderVersions();

}  // namespace muster::worker
