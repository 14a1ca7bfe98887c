#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

constexpr int kMostRules = 64;

class WeightsValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Ema& ema) {
    Below("train.ema.decay", ema.decay(), 0, 1);
    Whole("train.ema.every_steps", ema.every_steps(), 1, 1'000'000);
  }

  void Check(const v1::Weights& weights) {
    const std::string path = "train.weights.";
    if (!weights.has_path()) {
      Fault(path + "path", "is required: a safetensors file or the folder of a checkpoint");
    } else {
      Path(path + "path", weights.path());
    }
    Count(path + "map", weights.map_size(), kMostRules);
    for (int i = 0; i < weights.map_size(); ++i)
      Check(absl::StrCat(path, "map[", i, "]"), weights.map(i));
    Count(path + "ignore", weights.ignore_size(), kMostRules);
    for (int i = 0; i < weights.ignore_size(); ++i)
      Text(absl::StrCat(path, "ignore[", i, "]"), weights.ignore(i));
  }

 private:
  void Check(const std::string& path, const v1::NameMap& rule) {
    if (rule.from().empty() || rule.to().empty()) return Fault(path, "needs both from and to");
    Text(path + ".from", rule.from());
    Text(path + ".to", rule.to());
    const auto stars = [](const std::string& text) {
      return std::count(text.begin(), text.end(), '*');
    };
    if (stars(rule.from()) > 1 || stars(rule.from()) != stars(rule.to())) {
      Fault(path, "must have one `*` in both from and to, or none in either");
    }
  }
};

}  // namespace

void ValidateWeights(const v1::Train& train, std::vector<SpecFault>& faults) {
  WeightsValidator validator(faults);
  if (train.has_ema()) validator.Check(train.ema());
  if (train.has_weights()) validator.Check(train.weights());
}

}  // namespace muster
