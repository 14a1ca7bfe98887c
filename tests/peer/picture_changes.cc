// picture_changes IN OUT LIST: changes the pictures that a Python test has written, so that it can
// lay torchvision's beside them (augment_against_torchvision.py). picture_changes tables: prints
// AutoAugment's policies, a line a step: policy, sub-policy, operation, chance, magnitude.
//
// IN: safetensors with "pictures", F32 [n, channels, height, width] from 0 to 1.
// LIST: a change a line, of all pictures: "policy rand|trivial|auto OPERATION STRENGTH SIGN", an
// operation by its number, or "change NAME AMOUNT X Y".
// OUT: safetensors with "change.<line>", as the pictures.
#include <ATen/core/Tensor.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "tests/peer/write_tensors.h"
#include "worker/checkpoint/restore.h"
#include "worker/data/augment/auto_augment.h"
#include "worker/data/augment/picture_change.h"
#include "worker/data/augment/policy_ops.h"

namespace muster::worker {
namespace {

absl::StatusOr<PictureChange> ParsePolicy(std::istream& words, int64_t height, int64_t width) {
  std::string name;
  int op = 0;
  double strength = 0, sign = 0;
  words >> name >> op >> strength >> sign;
  if (!words || op < 0 || op >= kPolicyOps) return absl::InvalidArgumentError("no policy");
  const PolicyReach& reach = name == "rand"      ? kRandAugmentReach
                             : name == "trivial" ? kTrivialAugmentReach
                                                 : kAutoAugmentReach;
  return PolicyChange(static_cast<PolicyOp>(op), reach, strength, sign, height, width);
}

absl::StatusOr<PictureChange> ParseChange(std::istream& words) {
  std::string name;
  PictureChange change;
  words >> name >> change.amount >> change.x >> change.y;
  if (!words) return absl::InvalidArgumentError("no change");
  for (int op = 0; op <= static_cast<int>(PictureOp::kErase); ++op) {
    change.op = static_cast<PictureOp>(op);
    if (name == PictureOpName(change.op)) return change;
  }
  return absl::NotFoundError(absl::StrCat("no operation is called ", name));
}

absl::Status Run(const std::string& in, const std::string& out, const std::string& list) {
  MUSTER_ASSIGN_OR_RETURN(const NamedTensors given, ReadTensors(PosixFileSystem(), in));
  const at::Tensor& before = given.at(0).tensor;
  const int64_t height = before.size(2), width = before.size(3);
  std::ifstream lines(list);
  NamedTensors results;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    MUSTER_ASSIGN_OR_RETURN(const PictureChange change, kind == "policy"
                                                            ? ParsePolicy(words, height, width)
                                                            : ParseChange(words));
    const at::Tensor pictures = before.clone();
    float* values = pictures.mutable_data_ptr<float>();
    for (int64_t i = 0; i < pictures.size(0); ++i) {
      const Picture picture = {values, pictures.size(1), height, width};
      Apply(change, picture);
      values += picture.size();
    }
    results.push_back({absl::StrCat("change.", results.size()), pictures});
  }
  return muster::testing::WriteTensors(results, out);
}

void PrintTables() {
  for (const auto policy :
       {AutoAugmentPolicy::kImageNet, AutoAugmentPolicy::kCifar10, AutoAugmentPolicy::kSvhn}) {
    int number = 0;
    for (const SubPolicy& sub : SubPoliciesOf(policy)) {
      for (const PolicyStep& step : sub) {
        std::printf("%d %d %d %.1f %d\n", static_cast<int>(policy), number,
                    static_cast<int>(step.op), step.chance, step.magnitude);
      }
      ++number;
    }
  }
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "tables") {
    muster::worker::PrintTables();
    return 0;
  }
  if (argc != 4) {
    std::fputs("usage: picture_changes IN OUT LIST | picture_changes tables\n", stderr);
    return 2;
  }
  const absl::Status status = muster::worker::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "picture_changes: %s\n", status.ToString().c_str());
  return 1;
}
