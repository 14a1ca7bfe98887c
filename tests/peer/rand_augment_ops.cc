// rand_augment_ops IN OUT MAGNITUDE SIGN: each operation of RandAugment on the pictures that a
// Python test has written, so that it can lay torchvision's beside them
// (rand_augment_against_torchvision.py).
//
// IN: safetensors with "pictures", F32 [n, channels, height, width] from 0 to 1.
// OUT: safetensors with "op.<number>", likewise.
#include <ATen/core/Tensor.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "tests/peer/write_tensors.h"
#include "worker/checkpoint/restore.h"
#include "worker/data/images/rand_augment.h"

namespace muster::worker {
namespace {

absl::Status Run(const std::string& in, const std::string& out, double magnitude, double sign) {
  MUSTER_ASSIGN_OR_RETURN(const NamedTensors given, ReadTensors(PosixFileSystem(), in));
  NamedTensors results;
  for (int op = 0; op < kRandAugmentOps; ++op) {
    const at::Tensor pictures = given.at(0).tensor.clone();
    float* values = pictures.mutable_data_ptr<float>();
    for (int64_t i = 0; i < pictures.size(0); ++i) {
      const Picture picture = {values, pictures.size(1), pictures.size(2), pictures.size(3)};
      ApplyRandAugmentOp(picture, static_cast<RandAugmentOp>(op), magnitude, sign);
      values += picture.size();
    }
    results.push_back({absl::StrCat("op.", op), pictures});
  }
  return muster::testing::WriteTensors(results, out);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: rand_augment_ops IN OUT MAGNITUDE SIGN\n", stderr);
    return 2;
  }
  const absl::Status status =
      muster::worker::Run(argv[1], argv[2], std::atof(argv[3]), std::atof(argv[4]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "rand_augment_ops: %s\n", status.ToString().c_str());
  return 1;
}
