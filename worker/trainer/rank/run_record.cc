#include "worker/trainer/rank/run_record.h"

#include <ATen/Version.h>
#include <ATen/ops/full.h>
#include <torch/version.h>

#ifdef MUSTER_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/pictures/decoder_versions.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

// /proc/cpuinfo has one such line for each core; it is a pseudo file without a size.
std::string CpuName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

const char* PrecisionName(trainer_spec::Precision precision) {
  switch (precision) {
    case trainer_spec::Precision::kBf16:
      return "bf16";
    case trainer_spec::Precision::kTf32:
      return "tf32";
    case trainer_spec::Precision::kFp16:
      return "fp16";
    default:
      return "fp32";
  }
}

const char* CompressionName(trainer_spec::Compression compression) {
  switch (compression) {
    case trainer_spec::Compression::kFp16:
      return "fp16";
    case trainer_spec::Compression::kBf16:
      return "bf16";
    default:
      return "none";
  }
}

// How many ranks have another text than rank 0, and that one's. All ranks call it.
struct OtherRanks {
  int64_t count = 0;
  std::string first;
};
OtherRanks RanksUnlikeTheFirst(const std::string& own, Collectives& gang, c10::Device device) {
  OtherRanks others;
  if (gang.world_size() == 1) return others;
  others.first = own;
  gang.BroadcastText(others.first, 0);
  at::Tensor unlike =
      at::full({1}, others.first == own ? 0.0 : 1.0, at::TensorOptions(at::kFloat).device(device));
  gang.AllReduceSum(unlike);
  others.count = static_cast<int64_t>(unlike.item<float>());
  return others;
}

// "Intel(R) MKL-DNN v3.12.0 (Git Hash ...)" -> "3.12.0"; the whole text where there is no number.
std::string NumberIn(const std::string& text) {
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string::npos) return text;
  return text.substr(begin, text.find_first_not_of("0123456789.", begin) - begin);
}

}  // namespace

std::string DeviceName(c10::Device device) {
#ifdef MUSTER_WITH_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) return "";
    return properties.name;
  }
#else
  (void)device;
#endif
  return CpuName();
}

std::map<std::string, std::string> LibraryVersions() {
  std::map<std::string, std::string> versions = {{"torch", TORCH_VERSION},
                                                 {"onednn", NumberIn(at::get_mkldnn_version())},
                                                 {"mkl", NumberIn(at::get_mkl_version())},
                                                 {"cpu_capability", at::get_cpu_capability()},
                                                 {"compiler", __VERSION__}};
#ifdef MUSTER_WITH_CUDA
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
    versions["cuda"] = absl::StrCat(runtime / 1000, ".", runtime % 1000 / 10);
#endif
  return versions;
}

std::string ProgramVersion(const std::string& code_version, const std::string& path) {
  if (code_version != "unknown") return code_version;
  std::ifstream program(path, std::ios::binary);
  BlockHasher hasher;
  std::string piece(1u << 20, '\0');
  while (program.read(piece.data(), static_cast<std::streamsize>(piece.size())) ||
         program.gcount() > 0) {
    hasher.Update(absl::string_view(piece).substr(0, static_cast<size_t>(program.gcount())));
  }
  return absl::StrCat("unknown, program ", HashToHex(hasher.Finish().whole).substr(0, 16));
}

absl::Status CheckSameData(const Dataset& dataset, Collectives& gang, c10::Device device) {
  const std::string& own = dataset.fingerprint();
  const OtherRanks others = RanksUnlikeTheFirst(own, gang, device);
  if (others.count == 0) return absl::OkStatus();
  const std::string here = others.first == own
                               ? std::string("this rank's are those of rank 0")
                               : absl::StrCat("this rank has ", own, ", rank 0 ", others.first);
  return Classify(
      absl::InvalidArgumentError(absl::StrCat(
          others.count, " of ", gang.world_size(), " ranks see other data than rank 0: ", here,
          "; compare what lies at train.data on the machines, and index it anew")),
      kDataError);
}

RunIdentity IdentityOf(const Launch& launch, const trainer_spec::JobSpec& spec,
                       const Dataset& dataset, Collectives& gang, c10::Device device) {
  RunIdentity identity;
  identity.data_fingerprint = dataset.fingerprint();
  identity.seed = spec.train.seed;
  identity.world_size = launch.world_size;
  identity.threads_per_rank = spec.train.threads_per_rank;
  identity.device = device.is_cpu() ? "cpu" : "cuda";
  identity.device_name = DeviceName(device);
  identity.ranks_on_other_devices = RanksUnlikeTheFirst(identity.device_name, gang, device).count;
  identity.precision = PrecisionName(spec.train.precision);
  identity.transport = gang.transport();
  identity.compression = CompressionName(spec.train.parallel.compression);
  identity.sync_batch_norm = spec.train.parallel.sync_batch_norm;
  identity.deterministic = spec.train.deterministic;
  identity.torch_version = TORCH_VERSION;
  identity.libraries = LibraryVersions();
  if (dataset.decoding() != nullptr) identity.libraries.merge(DecoderVersions());
  identity.muster_version = Version();
  identity.code_version = ProgramVersion(CodeVersion(), "/proc/self/exe");
  identity.classes = dataset.classes();
  identity.class_names = dataset.class_names();
  identity.spec_json = launch.spec_json;
  return identity;
}

}  // namespace muster::worker
