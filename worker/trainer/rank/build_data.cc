#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/images/picture_files.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/mixture.h"
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

// What a thread that decodes pictures holds, its pixels and its picture's bytes among them: as
// photos of up to some twenty megapixels take that are not progressive.
constexpr int64_t kPictureThreadBytes = 2 << 20;

constexpr absl::Duration kWatchPause = absl::Milliseconds(100);
constexpr absl::Duration kSignOfLife = absl::Seconds(1);

// Sources have one file system.
ReadingBytes ReadingBytesOf(const trainer_spec::Data& data) {
  ReadingBytes most;
  for (const trainer_spec::Data& source : SourcesOf(data)) {
    const ReadingBytes bytes = AnyFileSystem::ReadingBytesOf(PathOf(source));
    most.ahead = std::max(most.ahead, bytes.ahead);
    most.of_reader = std::max(most.of_reader, bytes.of_reader);
  }
  return most;
}

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

// What the reads of the data tell who watches their loading, and are told. They may go on after it.
struct Loading {
  std::atomic<uint64_t> reads = 0;
  std::atomic<bool> is_stopped = false;

  absl::Status OnRead() {
    ++reads;
    return is_stopped ? absl::CancelledError("stopped while the data were loaded")
                      : absl::OkStatus();
  }
};

// Tells a rank's host that the rank is alive, if it has read something since or a server is asked
// again and again, and ends the loading when the rank is to stop.
class LoadWatch {
 public:
  // All must outlive it.
  LoadWatch(const LoadHost& host, FileSystem& files, Loading& loading)
      : host_(host), files_(files), loading_(loading), thread_([this] { Watch(); }) {}
  ~LoadWatch() {
    {
      MutexLock lock(mutex_);
      over_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

 private:
  void Watch() {
    uint64_t told = 0;  // of the reads
    for (Deadline silence(absl::ZeroDuration()); !IsOver();) {
      if (!host_.goes_on()) {
        loading_.is_stopped = true;
        files_.Cancel();
      }
      const uint64_t reads = loading_.reads;
      if (!silence.over() || (reads == told && files_.Trouble().empty())) continue;
      told = reads;
      silence = Deadline(kSignOfLife);
      host_.sign_of_life();
    }
  }
  // After a pause.
  bool IsOver() {
    MutexLock lock(mutex_);
    if (!over_) changed_.WaitFor(mutex_, kWatchPause);
    return over_;
  }

  const LoadHost& host_;
  FileSystem& files_;
  Loading& loading_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

struct ReadOptions {
  std::string key;  // of the data in the spec, for messages
  uint64_t seed = 0;
  bool storage_order = false;
  std::shared_ptr<AnyFileSystem> files;
  FileSystem& local;
  std::shared_ptr<Loading> loading;
};

absl::StatusOr<std::unique_ptr<Dataset>> ReadImages(const trainer_spec::Images& images,
                                                    const ReadOptions& options) {
  IndexOptions index;
  index.path = images.path;
  index.goes_on = [loading = options.loading] { return loading->OnRead().ok(); };
  MUSTER_ASSIGN_OR_RETURN(DataIndexes indexes,
                          OpenOrMakeIndexes(*options.files, options.local, index));
  PictureFilesConfig config;
  config.size = images.size;
  config.channels = images.channels;
  config.pixels = PixelScaleOf(images);
  config.decoding = DecodingOf(images);
  config.classes = images.classes;
  config.storage_order = options.storage_order;
  return PictureFiles::Create(options.files, std::move(indexes.splits), config);
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadSource(const trainer_spec::Data& data,
                                                    const ReadOptions& options) {
  FileSystem& fs = *options.files;
  // An error names the key.
  const auto classified = [&](auto dataset,
                              absl::string_view key) -> absl::StatusOr<std::unique_ptr<Dataset>> {
    if (dataset.ok()) return *std::move(dataset);
    return ClassifyData(dataset.status(), absl::StrCat(options.key, ".", key));
  };
  if (data.digits.has_value()) {
    const std::string& path = data.digits->path;
    return classified(ReadDigits(fs, {path, static_cast<int64_t>(data.digits->image_size)}),
                      absl::StrCat("digits.path ", path));
  }
  if (data.text.has_value())
    return classified(ReadText(fs, {data.text->path, data.text->context}), "text");
  if (data.tokens.has_value()) {
    return classified(ReadTokens(options.files,
                                 {data.tokens->path, data.tokens->context, data.tokens->vocabulary},
                                 options.files),
                      "tokens");
  }
  if (data.synthetic.has_value()) {
    const trainer_spec::Synthetic& synthetic = *data.synthetic;
    return classified(
        MakeSynthetic({static_cast<int64_t>(synthetic.samples), ToInt64(synthetic.shape),
                       static_cast<int64_t>(synthetic.classes), options.seed}),
        "synthetic");
  }
  if (data.cifar_bin.has_value())
    return classified(ReadCifar(fs, {data.cifar_bin->path}), "cifar_bin.path");
  if (data.numpy.has_value()) {
    return classified(
        ReadNumpy(fs, {data.numpy->path, ToFloat(data.numpy->mean), ToFloat(data.numpy->std)}),
        "numpy.path");
  }
  if (data.images.has_value()) return classified(ReadImages(*data.images, options), "images.path");
  if (data.csv.has_value()) {
    return classified(ReadCsv(fs, {data.csv->path, data.csv->target, data.csv->features,
                                   data.csv->regress, data.csv->normalize}),
                      "csv");
  }
  return Classify(absl::InvalidArgumentError(absl::StrCat(options.key, " names no source")),
                  kStartFailed);
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadMixture(const trainer_spec::Data& data,
                                                     const ReadOptions& options) {
  std::vector<Mixture::Source> sources;
  const std::vector<trainer_spec::Data> parts = SourcesOf(data);
  for (size_t i = 0; i < parts.size(); ++i) {
    ReadOptions part = options;
    part.key = absl::StrCat(options.key, ".mixture.sources[", i, "]");
    part.seed = DeriveSeed(options.seed, i);
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, ReadSource(parts[i], part));
    sources.push_back({data.mixture->sources[i].name, std::move(dataset)});
  }
  absl::StatusOr<std::unique_ptr<Mixture>> mixture = Mixture::Create(std::move(sources));
  if (!mixture.ok()) return ClassifyData(mixture.status(), absl::StrCat(options.key, ".mixture"));
  return *std::move(mixture);
}

}  // namespace

absl::Duration DataTimeoutOf(const trainer_spec::JobSpec& spec) {
  const absl::Duration progress = spec.restart.progress_timeout;
  return progress == absl::ZeroDuration() ? absl::InfiniteDuration() : 0.75 * progress;
}

absl::StatusOr<std::unique_ptr<Dataset>> BuildDataset(const trainer_spec::JobSpec& spec,
                                                      FileSystem& fs, const LoadHost& host) {
  trainer_spec::Data data = spec.train.data;
  const auto loading = std::make_shared<Loading>();
  AnyFileSystemOptions file_options;
  file_options.remote_deadline = std::min(file_options.remote_deadline, DataTimeoutOf(spec));
  file_options.before_call = [loading] { return loading->OnRead(); };
  const ReadOptions options = {.key = "train.data",
                               .seed = SeedFor(spec.train.seed, SeedPurpose::kSyntheticData),
                               .storage_order = data.shuffle_window > 0,
                               .files = std::make_shared<AnyFileSystem>(fs, file_options),
                               .local = fs,
                               .loading = loading};
  MUSTER_RETURN_IF_ERROR(ForEachPath(data, [&](std::string& path) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(path, options.files->KeepQuery(path));
    return absl::OkStatus();
  }));
  const auto read = data.mixture.has_value() ? ReadMixture : ReadSource;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = absl::InternalError("not read");
  {
    const LoadWatch watch(host, *options.files, *loading);
    dataset = read(data, options);
  }
  // Who asks whether something is there may take a read that was stopped for a no.
  if (!dataset.ok()) MUSTER_RETURN_IF_ERROR(loading->OnRead());
  MUSTER_RETURN_IF_ERROR(dataset.status());
  const auto keep = [&](Split split, uint64_t samples) {
    if (samples > 0)
      dataset = KeepSubset(*std::move(dataset), split, static_cast<int64_t>(samples));
  };
  keep(Split::kTrain, data.subset);
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
  return SamplerOf(train, dataset.source_sizes());
}

int ThreadsFor(int cpus_seen, uint32_t cpus_given, uint32_t ranks_here) {
  const int own = cpus_given > 0 ? static_cast<int>(cpus_given)
                                 : cpus_seen / static_cast<int>(std::max(ranks_here, 1u));
  return std::clamp(std::min(own, cpus_seen), 1, kMostThreads);
}

std::unique_ptr<Loader> BuildLoader(const trainer_spec::JobSpec& spec, const Dataset& dataset,
                                    const Augmenter* augmenter, const RankPlace& place) {
  const trainer_spec::Train& train = spec.train;
  LoaderOptions options;
  options.pinned = !place.device.is_cpu();
  options.leave_pixels = !place.device.is_cpu();
  options.threads = static_cast<int>(train.data.threads);
  if (options.threads == 0) {
    options.threads =
        dataset.in_files() ? ThreadsFor(AvailableCpus(), spec.per_rank.cpus, place.ranks_here) : 1;
  }
  options.broken_limit = BrokenLimitOf(train.data);
  for (const trainer_spec::Data& source : SourcesOf(train.data)) {
    if (source.images.has_value()) options.thread_bytes = kPictureThreadBytes;
  }
  if (dataset.in_files()) {
    const ReadingBytes reading = ReadingBytesOf(train.data);
    options.reading_bytes = static_cast<int64_t>(reading.ahead);
    options.thread_bytes += static_cast<int64_t>(reading.of_reader);
  }
  return std::make_unique<Loader>(dataset, BuildSampler(train, dataset), augmenter, options);
}

absl::Status LimitDataMemory(const trainer_spec::Data& data, const Recipe& recipe,
                             uint32_t world_size, Loader& loader) {
  if (data.memory_limit.empty()) return absl::OkStatus();
  const absl::StatusOr<uint64_t> limit = ParseBytes(data.memory_limit);
  if (!limit.ok()) return Classify(limit.status(), kStartFailed, "train.data.memory_limit");
  // Of the rank that has the most.
  const uint64_t samples = (loader.sampler().batch_size() + world_size - 1) / world_size;
  const absl::StatusOr<AheadPlan> plan = FitAhead(
      loader.ahead(), loader.Needs(static_cast<int64_t>(samples), recipe.evaluation_batch_size),
      static_cast<int64_t>(std::min(*limit, uint64_t{1} << 62)));
  if (!plan.ok()) {
    return Classify(absl::Status(plan.status().code(),
                                 absl::StrCat("train.data.memory_limit ", plan.status().message())),
                    kStartFailed);
  }
  if (*plan != loader.ahead()) {
    Log(LogLevel::kInfo, "data_memory_limited",
        {{"limit_bytes", *limit}, {"batches_ahead", plan->batches}, {"threads", plan->threads}});
  }
  loader.SetAhead(*plan);
  return absl::OkStatus();
}

absl::StatusOr<ModelContext> SampleContext(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  // Those of a mixture are alike.
  const trainer_spec::Data data = SourcesOf(spec.train.data).front();
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
