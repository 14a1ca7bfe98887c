// Where torch's libraries are, and whether they are those that muster-trainer was built against.
// Packages do not bring torch: they find that of a Python environment, or an unpacked LibTorch.
// Used by main.cc beside it. Reads files; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// What the trainer was built against.
struct WantedTorch {
  std::string version;  // "2.13.0": another has other symbols
  bool cuda = false;    // the trainer itself calls CUDA; without, any build of the version will do
};

// Where to look, in this order. The first two that name a folder must be right; nothing else is
// taken in their place.
struct TorchPlaces {
  std::string variable;      // the value of MUSTER_TORCH; empty: not set
  std::string beside;        // the folder that the package is in: site-packages of a wheel
  std::string setting_file;  // its first line that is not empty or a comment is a folder
};

struct FoundTorch {
  std::string root;     // has lib/libtorch_cpu.so
  std::string version;  // "2.13.0+cpu"
};

// A folder that people name may be a virtual environment, a site-packages, the folder `torch` in
// it, or an unpacked LibTorch. NOT_FOUND when there is none, FAILED_PRECONDITION when it is another
// version or build; both say where it was looked for and how to get the right one.
absl::StatusOr<FoundTorch> FindTorch(const TorchPlaces& places, const WantedTorch& wanted);

// LD_LIBRARY_PATH for the trainer: torch's libraries, those of CUDA's wheels beside it, then
// `rest`.
std::string LibraryPath(const FoundTorch& torch, absl::string_view rest);

}  // namespace muster::worker
