#include "worker/train/artifacts/reconstruction_sheet.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "worker/models/layers/patches.h"
#include "worker/train/artifacts/png.h"
#include "worker/train/run/cadence.h"

namespace muster::worker {
namespace {

constexpr double kWhite = 255;
constexpr double kGrey = 128;

// One row of the sheet: float [N, 3, h, w] in 0..255 -> [3, h + 2 margins, N x (w + 2 margins)].
at::Tensor Row(const at::Tensor& pictures) {
  const at::Tensor framed = at::constant_pad_nd(
      pictures, {kSheetMargin, kSheetMargin, kSheetMargin, kSheetMargin}, kWhite);
  return framed.permute({1, 2, 0, 3}).flatten(2);
}

at::Tensor Enlarge(const at::Tensor& pictures) {
  const int64_t side = std::max(pictures.size(2), pictures.size(3));
  const int64_t factor = std::max<int64_t>(1, kSheetPictureSide / side);
  return pictures.repeat_interleave(factor, 2).repeat_interleave(factor, 3);
}

class ReconstructionSheets final : public Artifact {
 public:
  ReconstructionSheets(FileSystem& fs, Model& model, at::Tensor originals,
                       ReconstructionSheetConfig config)
      : fs_(fs), model_(model), originals_(std::move(originals)), config_(std::move(config)) {}

  void AfterStep(int64_t done) override {
    if (!originals_.defined() || !DueBySteps(done, config_.every_steps)) return;
    const std::string file = absl::StrFormat("%s/reconstructions-%08d.png", config_.folder, done);
    const absl::Status written = Write(file);
    if (written.ok()) return;
    Log(LogLevel::kWarning, "reconstructions_not_written",
        {{"file", file}, {"error", written.ToString()}});
  }

 private:
  absl::Status Write(const std::string& file) {
    const at::Tensor sheet = Draw().cpu().contiguous();
    const absl::string_view pixels(static_cast<const char*>(sheet.const_data_ptr()),
                                   static_cast<size_t>(sheet.nbytes()));
    MUSTER_ASSIGN_OR_RETURN(const std::string png,
                            EncodePng(pixels, static_cast<uint32_t>(sheet.size(1)),
                                      static_cast<uint32_t>(sheet.size(0))));
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(config_.folder));
    return WriteFileAtomically(fs_, file, png);
  }

  at::Tensor Draw() {
    const at::NoGradGuard no_grad;
    model_.SetTraining(false);
    const ModelOutput output = model_.Forward(originals_);
    model_.SetTraining(true);
    const int64_t patch_size = config_.reconstruction.patch_size;
    const at::Tensor mask = output.mask.unsqueeze(-1).to(at::kBool);
    const at::Tensor hidden =
        FromPatches(mask.expand({-1, -1, output.values.size(2)}), originals_, patch_size);
    return DrawSheet(originals_, hidden, Reconstruct(output, originals_, config_.reconstruction));
  }

  FileSystem& fs_;
  Model& model_;
  const at::Tensor originals_;
  const ReconstructionSheetConfig config_;
};

}  // namespace

at::Tensor DrawSheet(const at::Tensor& originals, const at::Tensor& hidden,
                     const at::Tensor& reconstructions) {
  const at::Tensor low = originals.min();
  const at::Tensor range = (originals.max() - low).clamp_min(1e-6);
  const auto to_pixels = [&](const at::Tensor& pictures) {
    return ((pictures - low) / range).clamp(0, 1).mul(kWhite).round();
  };
  const at::Tensor pixels = to_pixels(originals);
  const at::Tensor shown = at::where(hidden, at::full({}, kGrey, pixels.options()), pixels);
  std::vector<at::Tensor> rows;
  for (const at::Tensor& pictures : {pixels, shown, to_pixels(reconstructions)}) {
    const bool colours = pictures.size(1) == 3;
    const at::Tensor rgb = colours ? pictures : pictures.narrow(1, 0, 1).expand({-1, 3, -1, -1});
    rows.push_back(Row(Enlarge(rgb)));
  }
  return at::cat(rows, 1).permute({1, 2, 0}).to(at::kByte);
}

absl::StatusOr<std::unique_ptr<Artifact>> MakeReconstructionSheets(
    FileSystem& fs, Model& model, const Loader& loader, at::Device device,
    ReconstructionSheetConfig config) {
  at::Tensor originals;
  if (loader.EvalBatches(Split::kValidation, kSheetPictures, 0, 1) > 0) {
    MUSTER_ASSIGN_OR_RETURN(const Batch batch,
                            loader.EvalBatch(Split::kValidation, kSheetPictures, 0, 0, 1));
    originals = batch.inputs.to(device);
  }
  return std::make_unique<ReconstructionSheets>(fs, model, std::move(originals), std::move(config));
}

}  // namespace muster::worker
