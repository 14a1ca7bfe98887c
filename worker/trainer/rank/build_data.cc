#include <sched.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/images/picture_files.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/subset.h"
#include "worker/data/text/token_rows.h"
#include "worker/train/run/failure.h"
#include "worker/train/run/seed_purpose.h"
#include "worker/trainer/data/data_recipe.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

// Decoding threads of a rank that does not say how many: more only wait for each other.
constexpr int kMostThreads = 16;

// Those that the agent has given the rank, where it has.
int AvailableCpus() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::vector<int64_t> ToInt64(const std::vector<uint32_t>& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

std::vector<float> ToFloat(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadImages(const trainer_spec::Images& images,
                                                    std::shared_ptr<AnyFileSystem> files,
                                                    FileSystem& local,
                                                    const SignOfLife& sign_of_life) {
  IndexOptions options;
  options.path = images.path;
  options.progress = [&sign_of_life](uint64_t) { sign_of_life(); };
  MUSTER_ASSIGN_OR_RETURN(DataIndexes indexes, OpenOrMakeIndexes(*files, local, options));
  PictureFilesConfig config;
  config.size = images.size;
  config.channels = images.channels;
  config.pixels = PixelScaleOf(images);
  config.decoding = DecodingOf(images);
  config.classes = images.classes;
  return PictureFiles::Create(files, std::move(indexes.splits), config);
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadSource(const trainer_spec::JobSpec& spec,
                                                    FileSystem& local,
                                                    const SignOfLife& sign_of_life) {
  const trainer_spec::Data& data = spec.train.data;
  const auto files = std::make_shared<AnyFileSystem>(local);
  FileSystem& fs = *files;
  if (data.digits.has_value()) {
    const std::string& path = data.digits->path;
    auto digits = ReadDigits(fs, {path, static_cast<int64_t>(data.digits->image_size)});
    if (digits.ok()) return *std::move(digits);
    return ClassifyData(digits.status(), absl::StrCat("train.data.digits.path ", path));
  }
  if (data.text.has_value()) {
    auto text = ReadText(fs, {data.text->path, data.text->context});
    if (text.ok()) return text;
    return ClassifyData(text.status(), "train.data.text");
  }
  if (data.tokens.has_value()) {
    auto tokens =
        ReadTokens(files, {data.tokens->path, data.tokens->context, data.tokens->vocabulary});
    if (tokens.ok()) return tokens;
    return ClassifyData(tokens.status(), "train.data.tokens");
  }
  if (data.synthetic.has_value()) {
    const trainer_spec::Synthetic& synthetic = *data.synthetic;
    auto made = MakeSynthetic({static_cast<int64_t>(synthetic.samples), ToInt64(synthetic.shape),
                               static_cast<int64_t>(synthetic.classes),
                               SeedFor(spec.train.seed, SeedPurpose::kSyntheticData)});
    if (made.ok()) return *std::move(made);
    return ClassifyData(made.status(), "train.data.synthetic");
  }
  if (data.cifar_bin.has_value()) {
    auto cifar = ReadCifar(fs, {data.cifar_bin->path});
    if (cifar.ok()) return cifar;
    return ClassifyData(cifar.status(), "train.data.cifar_bin.path");
  }
  if (data.numpy.has_value()) {
    auto numpy =
        ReadNumpy(fs, {data.numpy->path, ToFloat(data.numpy->mean), ToFloat(data.numpy->std)});
    if (numpy.ok()) return numpy;
    return ClassifyData(numpy.status(), "train.data.numpy.path");
  }
  if (data.images.has_value()) {
    auto images = ReadImages(*data.images, files, local, sign_of_life);
    if (images.ok()) return images;
    return ClassifyData(images.status(), "train.data.images.path");
  }
  if (data.csv.has_value()) {
    auto csv = ReadCsv(fs, {data.csv->path, data.csv->target, data.csv->features, data.csv->regress,
                            data.csv->normalize});
    if (csv.ok()) return csv;
    return ClassifyData(csv.status(), "train.data.csv");
  }
  return Classify(absl::InvalidArgumentError("train.data names no source"), kStartFailed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> BuildDataset(const trainer_spec::JobSpec& spec,
                                                      FileSystem& fs,
                                                      const SignOfLife& sign_of_life) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, ReadSource(spec, fs, sign_of_life));
  const auto keep = [&](Split split, uint64_t samples) {
    if (samples > 0) dataset = KeepSubset(std::move(dataset), split, static_cast<int64_t>(samples));
  };
  keep(Split::kTrain, spec.train.data.subset);
  keep(Split::kValidation, spec.train.validate_samples);
  return dataset;
}

absl::StatusOr<std::unique_ptr<Augmenter>> BuildAugmenter(const trainer_spec::Train& train,
                                                          const Dataset& dataset) {
  const AugmentConfig config = AugmentConfigOf(train.augment, dataset.pixels());
  if (!config.changes_pictures() && !config.mixes()) return nullptr;
  const bool pictures = dataset.shape().size() == 3;
  if (config.changes_pictures() && (!pictures || dataset.pixels().mean.empty())) {
    return Classify(absl::InvalidArgumentError(
                        "train.augment changes pictures, but the data are none (for numpy: bytes, "
                        "or floats from 0 to 1 with mean and std)"),
                    kStartFailed);
  }
  const bool classes = dataset.target_type() == at::kLong && dataset.target_shape().empty();
  if (config.mixes() && (!classes || (config.cutmix > 0 && !pictures))) {
    return Classify(absl::InvalidArgumentError(
                        "train.augment: mixup wants classes, and cutmix pictures with classes"),
                    kStartFailed);
  }
  return std::make_unique<Augmenter>(AugmenterOf(train, dataset.pixels()));
}

Sampler BuildSampler(const trainer_spec::Train& train, const Dataset& dataset) {
  return SamplerOf(train, static_cast<uint64_t>(dataset.size(Split::kTrain)));
}

std::unique_ptr<Loader> BuildLoader(const trainer_spec::Train& train, const Dataset& dataset,
                                    const Augmenter* augmenter) {
  LoaderOptions options;
  options.threads = static_cast<int>(train.data.threads);
  if (options.threads == 0)
    options.threads = dataset.in_files() ? std::min(AvailableCpus(), kMostThreads) : 1;
  if (train.data.images.has_value()) options.broken_limit = train.data.images->broken_samples;
  return std::make_unique<Loader>(dataset, BuildSampler(train, dataset), augmenter, options);
}

absl::StatusOr<ModelContext> SampleContext(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  const trainer_spec::Data& data = spec.train.data;
  ModelContext context;
  if (data.synthetic.has_value()) {
    context.input_shape.assign(data.synthetic->shape.begin(), data.synthetic->shape.end());
    context.classes = data.synthetic->classes;
  } else if (data.digits.has_value()) {
    context.input_shape = {1, data.digits->image_size, data.digits->image_size};
    context.classes = 10;
  } else if (data.images.has_value() && data.images->classes > 0) {
    context.input_shape = {data.images->channels, data.images->size, data.images->size};
    context.classes = data.images->classes;
  } else if (data.text.has_value()) {
    context.input_shape = {data.text->context};
    context.classes = 256;
  } else if (data.tokens.has_value()) {
    context.input_shape = {data.tokens->context};
    context.classes = data.tokens->vocabulary;
  } else {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, BuildDataset(spec, fs));
    context.input_shape = dataset->shape();
    context.classes = dataset->classes();
  }
  return context;
}

}  // namespace muster::worker
