#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/spec_checks.h"
#include "common/spec/train_validate.h"

namespace muster {
namespace {

constexpr uint64_t kMostSampleValues = 1ull << 26;

class DataValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Train& train) {
    switch (train.data().source_case()) {
      case v1::Data::SOURCE_NOT_SET:
        Fault("train.data", "is required: one of synthetic, digits");
        break;
      case v1::Data::kSynthetic:
        Check(train.data().synthetic(), train.model().has_resnet18());
        break;
      case v1::Data::kDigits:
        Check(train.data().digits());
        break;
    }
  }

 private:
  void Check(const v1::Synthetic& synthetic, bool pictures_only) {
    // A tenth each for validation and test must be at least one sample.
    Whole("train.data.synthetic.samples", synthetic.samples(), 10, 1'000'000'000);
    Whole("train.data.synthetic.classes", synthetic.classes(), 2, 100'000);
    const std::string path = "train.data.synthetic.shape";
    if (synthetic.shape_size() != 1 && synthetic.shape_size() != 3) {
      Fault(path, absl::StrCat("must be [features] or [channels, height, width]; got ",
                               synthetic.shape_size(), " numbers"));
    } else if (pictures_only && synthetic.shape_size() != 3) {
      Fault(path, "must be [channels, height, width] for resnet18; got 1 number");
    }
    uint64_t values = 1;
    for (int i = 0; i < synthetic.shape_size(); ++i) {
      const size_t before = faults().size();
      Whole(absl::StrCat(path, "[", i, "]"), synthetic.shape(i), 1, 1 << 20);
      if (faults().size() != before) return;
      values = std::min(values * synthetic.shape(i), kMostSampleValues + 1);
    }
    if (values > kMostSampleValues) {
      Fault(path, absl::StrCat("must multiply to at most ", kMostSampleValues, " values a sample"));
    }
  }

  void Check(const v1::Digits& digits) {
    if (!digits.has_path()) {
      Fault("train.data.digits.path", "is required: the folder that holds digits.csv");
    } else {
      Path("train.data.digits.path", digits.path());
    }
    const uint32_t size = digits.image_size();
    if (size != 8 && size != 16 && size != 24 && size != 32) {
      Fault("train.data.digits.image_size", absl::StrCat("must be 8, 16, 24 or 32; got ", size));
    }
  }
};

}  // namespace

void ValidateData(const v1::Train& train, std::vector<SpecFault>& faults) {
  DataValidator(faults).Check(train);
}

}  // namespace muster
