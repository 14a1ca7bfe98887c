#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/spec/tree/scheduling_text.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

constexpr uint64_t kMostSampleValues = 1ull << 26;
constexpr uint64_t kMostSamples = 1'000'000'000'000;
constexpr int kMostSources = 1000;
constexpr int kMostPhases = 1000;

class DataValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Train& train) {
    const v1::Data& data = train.data();
    if (data.has_mixture()) {
      CheckMixture(data.mixture(), train.model());
      if (data.subset() > 0)
        Fault("train.data.subset",
              "is not for a mixture: its weights say how much there is of each");
    } else {
      CheckSource("train.data", data, train.model());
    }
    Whole("train.data.threads", data.threads(), 0, 256);
    if (data.has_memory_limit())
      Status("train.data.memory_limit", ParseMemory(data.memory_limit()).status());
    Whole("train.data.subset", data.subset(), 0, kMostSamples);
    Whole("train.data.shuffle_window", data.shuffle_window(), 0, kMostSamples);
    if (data.subset() > 0 && data.shuffle_window() > 0) {
      Fault("train.data.shuffle_window",
            "is not for a subset, whose samples lie anywhere: leave one of them out");
    }
    Whole("train.validate_samples", train.validate_samples(), 0, kMostSamples);
    Check(train.augment());
  }

 private:
  // The name of a model that takes nothing but pictures; else empty.
  static absl::string_view PictureModel(const v1::Model& model) {
    switch (model.kind_case()) {
      case v1::Model::kResnet18:
        return "resnet18";
      case v1::Model::kResnet34:
        return "resnet34";
      case v1::Model::kResnet50:
        return "resnet50";
      case v1::Model::kResnet101:
        return "resnet101";
      case v1::Model::kVit:
        return "vit";
      case v1::Model::kMae:
        return "mae";
      default:
        return "";
    }
  }

  // `data` is a v1::Data without a mixture, or a source of one.
  template <typename Data>
  void CheckSource(const std::string& path, const Data& data, const v1::Model& model) {
    if (data.has_synthetic())
      return Check(path + ".synthetic", data.synthetic(), PictureModel(model));
    if (data.has_digits()) return Check(path + ".digits", data.digits());
    if (data.has_cifar_bin()) {
      return Given(path + ".cifar_bin.path", "the folder that holds data_batch_1.bin or train.bin",
                   data.cifar_bin().has_path(), data.cifar_bin().path());
    }
    if (data.has_numpy()) return Check(path + ".numpy", data.numpy());
    if (data.has_images()) return Check(path + ".images", data.images());
    if (data.has_csv()) return Check(path + ".csv", data.csv());
    if (data.has_text()) {
      Given(path + ".text.path", "the text file, or the folder of text files",
            data.text().has_path(), data.text().path());
      Whole(path + ".text.context", data.text().context(), 1, kMostContext);
      return CheckLanguageModel(path, model);
    }
    if (data.has_tokens()) {
      Given(path + ".tokens.path", "the folder that holds train.bin and val.bin",
            data.tokens().has_path(), data.tokens().path());
      Whole(path + ".tokens.context", data.tokens().context(), 1, kMostContext);
      Whole(path + ".tokens.vocabulary", data.tokens().vocabulary(), 2, kMostVocabulary);
      return CheckLanguageModel(path, model);
    }
    Fault(path, absl::StrCat("is required: one of ", MembersOf(*Data::descriptor(), "source")));
  }

  void CheckMixture(const v1::Mixture& mixture, const v1::Model& model) {
    const std::string path = "train.data.mixture.";
    Count(path + "sources", mixture.sources_size(), kMostSources);
    if (mixture.sources_size() < 2)
      Fault(path + "sources", "wants two or more: give a single one without a mixture");
    std::vector<double> weights;
    int weighted = 0;
    for (int i = 0; i < mixture.sources_size(); ++i) {
      const v1::MixtureSource& source = mixture.sources(i);
      const std::string at = absl::StrCat(path, "sources[", i, "]");
      CheckSource(at, source, model);
      Text(at + ".name", source.name());
      weighted += source.has_weight();
      weights.push_back(source.weight());
    }
    if (weighted > 0 && weighted < mixture.sources_size())
      Fault(path + "sources", "give a weight to all of them, or to none");
    if (weighted > 0) CheckWeights(path + "sources", weights);
    if (mixture.phases_size() > 0 && weighted == 0) {
      Fault(path + "phases", "want sources with weights, which hold until the first phase");
    }
    CheckPhases(mixture);
  }

  void CheckPhases(const v1::Mixture& mixture) {
    const std::string path = "train.data.mixture.phases";
    Count(path, mixture.phases_size(), kMostPhases);
    uint64_t before = 0;
    for (int i = 0; i < mixture.phases_size(); ++i) {
      const v1::MixturePhase& phase = mixture.phases(i);
      const std::string at = absl::StrCat(path, "[", i, "]");
      if (phase.from_step() <= before) {
        Fault(at + ".from_step",
              absl::StrCat("must be above ", before, "; got ", phase.from_step()));
      }
      Whole(at + ".from_step", phase.from_step(), 0, kMostSteps);
      before = std::max(before, phase.from_step());
      if (phase.weights_size() != mixture.sources_size()) {
        Fault(at + ".weights",
              absl::StrCat("must have a number for each of ", mixture.sources_size(),
                           " sources; got ", phase.weights_size()));
      } else {
        CheckWeights(at + ".weights", {phase.weights().begin(), phase.weights().end()});
      }
    }
  }

  void CheckWeights(const std::string& path, const std::vector<double>& weights) {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      Range(absl::StrCat(path, "[", i, "]"), weights[i], 0, 1e9);
      sum += weights[i];
    }
    if (sum <= 0) Fault(path, "must have a weight above 0");
  }

  void Check(const std::string& path, const v1::Synthetic& synthetic,
             absl::string_view picture_model) {
    // A tenth each for validation and test must be at least one sample.
    Whole(path + ".samples", synthetic.samples(), 10, 1'000'000'000);
    Whole(path + ".classes", synthetic.classes(), 2, 100'000);
    const std::string shape = path + ".shape";
    if (synthetic.shape_size() != 1 && synthetic.shape_size() != 3) {
      Fault(shape, absl::StrCat("must be [features] or [channels, height, width]; got ",
                                synthetic.shape_size(), " numbers"));
    } else if (!picture_model.empty() && synthetic.shape_size() != 3) {
      Fault(shape, absl::StrCat("must be [channels, height, width] for ", picture_model,
                                "; got 1 number"));
    }
    uint64_t values = 1;
    for (int i = 0; i < synthetic.shape_size(); ++i) {
      const size_t before = faults().size();
      Whole(absl::StrCat(shape, "[", i, "]"), synthetic.shape(i), 1, 1 << 20);
      if (faults().size() != before) return;
      values = std::min(values * synthetic.shape(i), kMostSampleValues + 1);
    }
    if (values > kMostSampleValues) {
      Fault(shape,
            absl::StrCat("must multiply to at most ", kMostSampleValues, " values a sample"));
    }
  }

  void Check(const std::string& path, const v1::Numpy& numpy) {
    Given(path + ".path", "the folder that holds train_inputs.npy", numpy.has_path(), numpy.path());
    Count(path + ".mean", numpy.mean_size(), 4096);
    if (numpy.mean_size() != numpy.std_size())
      Fault(path + ".std", "must have as many numbers as mean");
    for (int i = 0; i < numpy.mean_size(); ++i)
      Range(absl::StrCat(path, ".mean[", i, "]"), numpy.mean(i), -1e6, 1e6);
    for (int i = 0; i < numpy.std_size(); ++i)
      Above(absl::StrCat(path, ".std[", i, "]"), numpy.std(i), 0, 1e6);
  }

  void Check(const std::string& key, const v1::Images& images) {
    const std::string path = key + ".";
    Given(path + "path", "the folder of pictures, or of shards", images.has_path(), images.path());
    Whole(path + "size", images.size(), 8, 1024);
    const bool channels = images.channels() == 1 || images.channels() == 3;
    if (!channels)
      Fault(path + "channels", absl::StrCat("must be 1 or 3; got ", images.channels()));
    for (const auto& [name, values] : {std::pair("mean", &images.mean()), {"std", &images.std()}}) {
      if (channels && values->size() != static_cast<int>(images.channels())) {
        Fault(path + name, absl::StrCat("must have a number for each of ", images.channels(),
                                        " channels; got ", values->size()));
      }
    }
    for (int i = 0; i < images.mean_size(); ++i)
      Range(absl::StrCat(path, "mean[", i, "]"), images.mean(i), -1e6, 1e6);
    for (int i = 0; i < images.std_size(); ++i)
      Above(absl::StrCat(path, "std[", i, "]"), images.std(i), 0, 1e6);
    Above(path + "center_crop", images.center_crop(), 0, 1);
    Whole(path + "classes", images.classes(), 0, 1'000'000);
    Whole(path + "broken_samples", images.broken_samples(), 0, 1'000'000'000);
  }

  void Check(const std::string& key, const v1::Csv& csv) {
    const std::string path = key + ".";
    Given(path + "path", "the CSV file, or the folder that holds train.csv", csv.has_path(),
          csv.path());
    if (csv.target().empty())
      Fault(path + "target", "is required: the column that is to be learnt");
    Count(path + "features", csv.features_size(), 4096);
    for (int i = 0; i < csv.features_size(); ++i) {
      if (csv.features(i).empty() || csv.features(i) == csv.target()) {
        Fault(absl::StrCat(path, "features[", i, "]"), "must name a column other than the target");
      }
    }
  }

  void Check(const v1::Augment& augment) {
    const std::string path = "train.augment.";
    Range(path + "crop_min_area", augment.crop_min_area(), 0, 1);
    Whole(path + "crop_padding", augment.crop_padding(), 0, 1024);
    Range(path + "flip", augment.flip(), 0, 1);
    Range(path + "vertical_flip", augment.vertical_flip(), 0, 1);
    CheckPolicy(augment);
    Whole(path + "rand_augment_operations", augment.rand_augment_operations(), 0, 16);
    Range(path + "rand_augment_magnitude", augment.rand_augment_magnitude(), 0, 30);
    Check(augment.color_jitter());
    Range(path + "grey", augment.grey(), 0, 1);
    Range(path + "blur", augment.blur(), 0, 1);
    Range(path + "erase", augment.erase(), 0, 1);
    Range(path + "mixup", augment.mixup(), 0, 10);
    Range(path + "cutmix", augment.cutmix(), 0, 10);
  }

  // Each changes a picture as much as it can bear.
  void CheckPolicy(const v1::Augment& augment) {
    std::vector<std::string> policies;
    if (augment.rand_augment_operations() > 0) policies.push_back("rand_augment_operations");
    if (augment.trivial_augment()) policies.push_back("trivial_augment");
    const bool found = augment.auto_augment() != v1::AUTO_AUGMENT_UNSPECIFIED &&
                       augment.auto_augment() != v1::AUTO_AUGMENT_NONE;
    if (found) policies.push_back("auto_augment");
    if (policies.size() < 2) return;
    Fault("train.augment",
          absl::StrCat("has ", absl::StrJoin(policies, " and "), ": keep one of them"));
  }

  void Check(const v1::ColorJitter& jitter) {
    const std::string path = "train.augment.color_jitter.";
    Range(path + "brightness", jitter.brightness(), 0, 10);
    Range(path + "contrast", jitter.contrast(), 0, 10);
    Range(path + "saturation", jitter.saturation(), 0, 10);
    Range(path + "hue", jitter.hue(), 0, 0.5);
    Range(path + "chance", jitter.chance(), 0, 1);
  }

  void Check(const std::string& path, const v1::Digits& digits) {
    Given(path + ".path", "the folder that holds digits.csv", digits.has_path(), digits.path());
    const uint32_t size = digits.image_size();
    if (size != 8 && size != 16 && size != 24 && size != 32) {
      Fault(path + ".image_size", absl::StrCat("must be 8, 16, 24 or 32; got ", size));
    }
  }

  // Rows of tokens are for models that say what follows each of them.
  void CheckLanguageModel(const std::string& path, const v1::Model& model) {
    if (model.has_mlp() || !PictureModel(model).empty()) {
      Fault(path, "is text: it needs a language model, such as train.model.gpt2");
    }
  }
};

}  // namespace

void ValidateData(const v1::Train& train, std::vector<SpecFault>& faults) {
  DataValidator(faults).Check(train);
}

}  // namespace muster
