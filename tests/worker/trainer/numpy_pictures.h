// Small pictures of noise in a few classes, as the .npy files that `train.data.numpy` reads. No
// torch.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"

namespace muster::testing {

inline void WriteNumpy(const std::string& path, const std::string& type, const std::string& shape,
                       const std::string& bytes) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size() & 0xff)
       << static_cast<char>(header.size() >> 8) << header << bytes;
}

// Of `classes` classes, [3, size, size], uint8.
inline void WriteNumpyPictures(const std::string& folder, int64_t size, int64_t classes) {
  uint64_t random = 1;
  for (const auto& [split, count] :
       {std::pair<const char*, int64_t>{"train", 103}, {"validation", 11}, {"test", 13}}) {
    std::string pixels, targets;
    for (int64_t i = 0; i < count * 3 * size * size; ++i)
      pixels += static_cast<char>((random = SplitMix64(random)) >> 56);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t target = i % classes;
      targets.append(reinterpret_cast<const char*>(&target), sizeof(target));
    }
    const std::string path = absl::StrCat(folder, "/", split);
    WriteNumpy(path + "_inputs.npy", "|u1", absl::StrCat(count, ", 3, ", size, ", ", size), pixels);
    WriteNumpy(path + "_targets.npy", "<i8", absl::StrCat(count, ","), targets);
  }
}

}  // namespace muster::testing
