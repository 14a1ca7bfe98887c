#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

constexpr uint64_t kMostSampleValues = 1ull << 26;

class DataValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Train& train) {
    switch (train.data().source_case()) {
      case v1::Data::SOURCE_NOT_SET:
        Fault("train.data",
              absl::StrCat("is required: one of ", MembersOf(*v1::Data::descriptor(), "source")));
        break;
      case v1::Data::kSynthetic:
        Check(train.data().synthetic(), PictureModel(train.model()));
        break;
      case v1::Data::kDigits:
        Check(train.data().digits());
        break;
      case v1::Data::kCifarBin:
        Given("train.data.cifar_bin.path", "the folder that holds data_batch_1.bin or train.bin",
              train.data().cifar_bin().has_path(), train.data().cifar_bin().path());
        break;
      case v1::Data::kNumpy:
        Check(train.data().numpy());
        break;
      case v1::Data::kImages:
        Check(train.data().images());
        break;
      case v1::Data::kCsv:
        Check(train.data().csv());
        break;
      case v1::Data::kText:
        Given("train.data.text.path", "the text file, or the folder of text files",
              train.data().text().has_path(), train.data().text().path());
        Whole("train.data.text.context", train.data().text().context(), 1, kMostContext);
        CheckLanguageModel(train.model());
        break;
      case v1::Data::kTokens:
        Given("train.data.tokens.path", "the folder that holds train.bin and val.bin",
              train.data().tokens().has_path(), train.data().tokens().path());
        Whole("train.data.tokens.context", train.data().tokens().context(), 1, kMostContext);
        Whole("train.data.tokens.vocabulary", train.data().tokens().vocabulary(), 2,
              kMostVocabulary);
        CheckLanguageModel(train.model());
        break;
    }
    Whole("train.data.threads", train.data().threads(), 0, 256);
    Whole("train.data.subset", train.data().subset(), 0, 1'000'000'000'000);
    Whole("train.validate_samples", train.validate_samples(), 0, 1'000'000'000'000);
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

  void Check(const v1::Synthetic& synthetic, absl::string_view picture_model) {
    // A tenth each for validation and test must be at least one sample.
    Whole("train.data.synthetic.samples", synthetic.samples(), 10, 1'000'000'000);
    Whole("train.data.synthetic.classes", synthetic.classes(), 2, 100'000);
    const std::string path = "train.data.synthetic.shape";
    if (synthetic.shape_size() != 1 && synthetic.shape_size() != 3) {
      Fault(path, absl::StrCat("must be [features] or [channels, height, width]; got ",
                               synthetic.shape_size(), " numbers"));
    } else if (!picture_model.empty() && synthetic.shape_size() != 3) {
      Fault(path, absl::StrCat("must be [channels, height, width] for ", picture_model,
                               "; got 1 number"));
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

  void Check(const v1::Numpy& numpy) {
    Given("train.data.numpy.path", "the folder that holds train_inputs.npy", numpy.has_path(),
          numpy.path());
    Count("train.data.numpy.mean", numpy.mean_size(), 4096);
    if (numpy.mean_size() != numpy.std_size())
      Fault("train.data.numpy.std", "must have as many numbers as mean");
    for (int i = 0; i < numpy.mean_size(); ++i)
      Range(absl::StrCat("train.data.numpy.mean[", i, "]"), numpy.mean(i), -1e6, 1e6);
    for (int i = 0; i < numpy.std_size(); ++i)
      Above(absl::StrCat("train.data.numpy.std[", i, "]"), numpy.std(i), 0, 1e6);
  }

  void Check(const v1::Images& images) {
    const std::string path = "train.data.images.";
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

  void Check(const v1::Csv& csv) {
    const std::string path = "train.data.csv.";
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

  void Check(const v1::Digits& digits) {
    Given("train.data.digits.path", "the folder that holds digits.csv", digits.has_path(),
          digits.path());
    const uint32_t size = digits.image_size();
    if (size != 8 && size != 16 && size != 24 && size != 32) {
      Fault("train.data.digits.image_size", absl::StrCat("must be 8, 16, 24 or 32; got ", size));
    }
  }

  // Rows of tokens are for models that say what follows each of them.
  void CheckLanguageModel(const v1::Model& model) {
    if (model.has_mlp() || model.has_resnet18()) {
      Fault("train.data", "is text: it needs a language model, such as train.model.gpt2");
    }
  }
};

}  // namespace

void ValidateData(const v1::Train& train, std::vector<SpecFault>& faults) {
  DataValidator(faults).Check(train);
}

}  // namespace muster
