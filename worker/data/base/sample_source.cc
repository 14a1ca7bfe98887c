#include "worker/data/base/sample_source.h"

namespace muster::worker {

const char* SplitName(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
  }
  return "unknown";
}

}  // namespace muster::worker
