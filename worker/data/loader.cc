#include "worker/data/loader.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/data/base/stopwatch.h"
#include "worker/data/model_inputs.h"

namespace muster::worker {
namespace {

// Batch norm needs two samples to have a variance.
constexpr int64_t kStandIns = 2;

// The rank's places of the global batch with the other halves of the pairs that it has one half of
// (pair_mix.h): at most two more.
PlaceRange WholePairs(const PlaceRange& share, uint64_t global_batch) {
  if (share.size() == 0) return share;
  return {share.begin - share.begin % 2, std::min(share.end + share.end % 2, global_batch)};
}

// Mixes the two samples of each pair of places; the last of an odd number stays as it is. Requires
// whole pairs but for that. Targets become float [n, classes], each row adding to 1.
void MixPairs(const Augmenter& augmenter, const EpochPlace& first, const Dataset& dataset,
              bool pinned, Batch& batch) {
  const std::vector<int64_t>& shape = dataset.shape();
  const int64_t samples = batch.inputs.size(0), size = batch.inputs.numel() / samples;
  const bool picture = shape.size() == 3;
  const auto at = [&, values = batch.inputs.mutable_data_ptr<float>()](int64_t i) {
    if (!picture) return Picture{values + i * size, size, 1, 1};
    return Picture{values + i * size, shape[0], shape[1], shape[2]};
  };
  const PairMix mix = augmenter.DrawMix(at(0).height, at(0).width, first);
  const at::Tensor soft =
      at::zeros({samples, dataset.classes()}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  float* rows = soft.mutable_data_ptr<float>();
  const int64_t* classes = batch.targets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t partner = std::min(i ^ 1, samples - 1);
    if (i < partner) MixPair(mix, at(i), at(partner));
    float* row = rows + i * dataset.classes();
    row[classes[i]] += mix.share;
    row[classes[partner]] += mix.rest();
  }
  batch.targets = soft;
}

absl::StatusOr<Batch> MakeAll(PendingBatch& batch) {
  SampleScratch scratch;
  MUSTER_RETURN_IF_ERROR(batch.Make(0, batch.samples(), scratch));
  return WithModelInputs(batch.Finish());
}

// Samples of a split, each into its slot.
class SlottedBatch : public PendingBatch {
 public:
  SlottedBatch(const Dataset& dataset, const Transform& transform, BrokenSamples& broken,
               BatchMemory& memory, Split split, std::vector<int64_t> ids)
      : dataset_(dataset),
        transform_(transform),
        broken_(broken),
        split_(split),
        ids_(std::move(ids)),
        slots_(dataset, transform.input_type(), samples(),
               [&memory](const std::vector<int64_t>& sizes, c10::ScalarType type) {
                 return memory.Take(sizes, type);
               }) {
    dataset.WillRead(split, ids_);
  }

  int64_t samples() const override { return static_cast<int64_t>(ids_.size()); }

  absl::Status Make(int64_t begin, int64_t end, SampleScratch& scratch) override {
    scratch.busy = {};
    const Stopwatch all;
    absl::Status made;
    for (int64_t place = begin; place < end && made.ok(); ++place) {
      SetPlace(scratch, place);
      made = MakeOneThatIsWhole(place, scratch);
    }
    scratch.busy.augment = all.seconds() - scratch.busy.total();
    MutexLock lock(mutex_);
    busy_ += scratch.busy;
    making_.erase(&scratch);
    return made;
  }

  std::string InTheMaking() const override {
    MutexLock lock(mutex_);
    if (making_.empty()) return "";
    return dataset_.NameOf(split_, ids_[static_cast<size_t>(making_.begin()->second)]);
  }

 protected:
  virtual absl::Status MakeOne(const StoredSample& sample, int64_t /*place*/,
                               const SampleSlot& slot, SampleScratch& scratch) {
    return transform_.Evaluate(sample, slot, scratch);
  }
  const Dataset& dataset() const { return dataset_; }
  const Transform& transform() const { return transform_; }
  Batch Whole(int64_t count, int64_t global_count) const {
    MutexLock lock(mutex_);
    return {slots_.part().inputs,
            slots_.part().targets,
            count,
            global_count,
            ids_,
            busy_,
            transform_.leaves_pixels() ? &dataset_.pixels() : nullptr};
  }

 private:
  // The place's own sample or, where that is broken, the next one that is not.
  absl::Status MakeOneThatIsWhole(int64_t place, SampleScratch& scratch) {
    const int64_t size = dataset_.size(split_);
    const int64_t own = ids_[static_cast<size_t>(place)];
    for (int64_t further = 0; further < size; ++further) {
      const int64_t id = (own + further) % size;
      if (broken_.Has(split_, id)) continue;
      const Stopwatch read;
      MUSTER_ASSIGN_OR_RETURN(const StoredSample sample, dataset_.Read(split_, id, scratch.stored));
      if (dataset_.in_files()) scratch.busy.read += read.seconds();
      const absl::Status made = MakeOne(sample, place, slots_[place], scratch);
      if (made.ok()) return made;
      MUSTER_RETURN_IF_ERROR(broken_.Add(split_, id, dataset_.NameOf(split_, id), made));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("every sample of the ", SplitName(split_), " set is broken"));
  }

  void SetPlace(const SampleScratch& scratch, int64_t place) {
    if (!dataset_.in_files()) return;
    MutexLock lock(mutex_);
    making_[&scratch] = place;
  }

  const Dataset& dataset_;
  const Transform& transform_;
  BrokenSamples& broken_;
  const Split split_;
  const std::vector<int64_t> ids_;
  const BatchSlots slots_;
  mutable Mutex mutex_;
  StageSeconds busy_ MUSTER_GUARDED_BY(mutex_);
  // Of samples in files: at which place each thread is.
  std::map<const SampleScratch*, int64_t> making_ MUSTER_GUARDED_BY(mutex_);
};

class EvaluationBatch final : public SlottedBatch {
 public:
  using SlottedBatch::SlottedBatch;
  Batch Finish() override { return Whole(samples(), samples()); }
};

// A rank's part of a step's batch.
class TrainingBatch final : public SlottedBatch {
 public:
  struct Part {
    uint64_t step = 0;
    PlaceRange share;  // places of the global batch that count here
    PlaceRange read;   // places that are made
    int64_t global_count = 0;
  };

  TrainingBatch(const Dataset& dataset, const Transform& transform, BrokenSamples& broken,
                BatchMemory& memory, const Sampler& sampler, const Augmenter* augmenter,
                const Part& part, std::vector<int64_t> ids)
      : SlottedBatch(dataset, transform, broken, memory, Split::kTrain, std::move(ids)),
        pinned_(memory.pinned()),
        sampler_(sampler),
        augmenter_(augmenter),
        part_(part) {}

  Batch Finish() override {
    const int64_t count = static_cast<int64_t>(part_.share.size());
    Batch batch = Whole(count, part_.global_count);
    if (augmenter_ != nullptr && augmenter_->config().mixes())
      MixPairs(*augmenter_, sampler_.PlaceOf(part_.step, 0), dataset(), pinned_, batch);
    if (part_.read.size() == part_.share.size()) return batch;
    const auto before = static_cast<int64_t>(part_.share.begin - part_.read.begin);
    batch.inputs = batch.inputs.narrow(0, before, count);
    batch.targets = batch.targets.narrow(0, before, count);
    batch.ids = {batch.ids.begin() + before, batch.ids.begin() + before + count};
    return batch;
  }

 private:
  absl::Status MakeOne(const StoredSample& sample, int64_t place, const SampleSlot& slot,
                       SampleScratch& scratch) override {
    if (augmenter_ == nullptr) return transform().Evaluate(sample, slot, scratch);
    const uint64_t global_place = part_.read.begin + static_cast<uint64_t>(place);
    return transform().Train(sample, sampler_.PlaceOf(part_.step, global_place), slot, scratch);
  }

  const bool pinned_;
  const Sampler& sampler_;
  const Augmenter* augmenter_;
  const Part part_;
};

}  // namespace

std::vector<int64_t> Loader::IdsAt(uint64_t step, const PlaceRange& places) const {
  std::vector<int64_t> ids = sampler_.Ids(step, places);
  if (sampler_.in_windows()) {
    for (int64_t& id : ids) id = dataset_.IdInStorage(id);
  }
  return ids;
}

std::unique_ptr<PendingBatch> Loader::BeginTrainBatch(uint64_t step, uint32_t rank,
                                                      uint32_t world) const {
  const bool mixes = augmenter_ != nullptr && augmenter_->config().mixes();
  const uint64_t global = sampler_.GlobalBatch(step);
  MUSTER_CHECK(global > 0, "a training step lies before the sampler's limit");
  const PlaceRange share = EvenPart(global, rank, world);
  const PlaceRange read = mixes ? WholePairs(share, global) : share;
  std::vector<int64_t> ids = IdsAt(step, read);
  if (const uint64_t later = step + sampler_.steps_in_window(); later > step)
    dataset_.WillRead(Split::kTrain,
                      IdsAt(later, EvenPart(sampler_.GlobalBatch(later), rank, world)));
  if (ids.empty()) {
    for (int64_t i = 0; i < kStandIns; ++i) {
      ids.push_back(i % static_cast<int64_t>(sampler_.samples()));
    }
  }
  return std::make_unique<TrainingBatch>(
      dataset_, transform_, broken_, memory_, sampler_, augmenter_,
      TrainingBatch::Part{step, share, read, static_cast<int64_t>(global)}, std::move(ids));
}

absl::StatusOr<Batch> Loader::TrainBatch(uint64_t step, uint32_t rank, uint32_t world) const {
  return MakeAll(*BeginTrainBatch(step, rank, world));
}

Batch Loader::StandIns(uint64_t step, int64_t parts) const {
  const int64_t samples = kStandIns * parts;
  const Dataset::Part part = BatchSlots(dataset_, transform_.input_type(), samples).part();
  Batch batch = {part.inputs.zero_(), part.targets.zero_(), samples};
  batch.global_count = static_cast<int64_t>(sampler_.GlobalBatch(step));
  batch.ids.assign(static_cast<size_t>(samples), 0);
  if (transform_.leaves_pixels()) batch.pixels = &dataset_.pixels();
  return WithModelInputs(std::move(batch));
}

int64_t Loader::EvalBatches(Split split, int64_t batch_size, uint32_t rank, uint32_t world) const {
  MUSTER_CHECK(batch_size > 0, "a batch has samples");
  const int64_t count = static_cast<int64_t>(
      EvenPart(static_cast<uint64_t>(dataset_.size(split)), rank, world).size());
  return (count + batch_size - 1) / batch_size;
}

std::unique_ptr<PendingBatch> Loader::BeginEvalBatch(Split split, int64_t batch_size, int64_t index,
                                                     uint32_t rank, uint32_t world) const {
  const PlaceRange places = EvenPart(static_cast<uint64_t>(dataset_.size(split)), rank, world);
  const int64_t begin = static_cast<int64_t>(places.begin) + index * batch_size;
  const int64_t count = std::min(batch_size, static_cast<int64_t>(places.end) - begin);
  MUSTER_CHECK(index >= 0 && count > 0, "an evaluation batch lies in the rank's shard");
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), begin);
  return std::make_unique<EvaluationBatch>(dataset_, transform_, broken_, memory_, split,
                                           std::move(ids));
}

absl::StatusOr<Batch> Loader::EvalBatch(Split split, int64_t batch_size, int64_t index,
                                        uint32_t rank, uint32_t world) const {
  return MakeAll(*BeginEvalBatch(split, batch_size, index, rank, world));
}

// Samples that are only copied are quicker copied than handed over between threads. Of those that
// are decoded each thread has some while one batch waits and one is in use.
AheadPlan Loader::WorthMakingAhead() const {
  if (transform_.only_copies() && !dataset_.in_files()) return {};
  return {.batches = options_.threads > 1 ? 2 : 1, .threads = options_.threads};
}

DataNeeds Loader::Needs(int64_t batch_samples, int64_t evaluation_samples) const {
  const bool mixes = augmenter_ != nullptr && augmenter_->config().mixes();
  const int64_t others = mixes ? 2 : 0;  // halves of pairs
  return {.held = dataset_.bytes() + options_.reading_bytes,
          .batch = (batch_samples + others) * sample_bytes(),
          .evaluation_batch = evaluation_samples * sample_bytes(),
          .thread = options_.thread_bytes};
}

int64_t Loader::sample_bytes() const {
  const BatchSlots one(dataset_, transform_.input_type(), 1);
  return static_cast<int64_t>(one.part().inputs.nbytes() + one.part().targets.nbytes());
}

int64_t Loader::scaled_sample_bytes() const {
  if (!transform_.leaves_pixels()) return 0;
  const BatchSlots one(dataset_, at::kFloat, 1);
  return static_cast<int64_t>(one.part().inputs.nbytes());
}

}  // namespace muster::worker
