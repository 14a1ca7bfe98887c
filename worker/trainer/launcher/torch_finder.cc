#include "worker/trainer/launcher/torch_finder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

// No file that is read here has more than a few lines.
constexpr size_t kMaxBytes = 64u << 10;

std::string Head(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool IsRoot(const fs::path& folder) { return IsThere(folder / "lib" / "libtorch_cpu.so"); }

// The folders of `folder` whose name begins so, by name.
std::vector<fs::path> FoldersIn(const fs::path& folder, absl::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), prefix)) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Empty: there is no torch.
fs::path RootIn(const fs::path& folder) {
  if (IsRoot(folder)) return folder;
  if (IsRoot(folder / "torch")) return folder / "torch";
  for (const fs::path& python : FoldersIn(folder / "lib", "python3")) {
    const fs::path root = python / "site-packages" / "torch";
    if (IsRoot(root)) return root;
  }
  return {};
}

// Of a wheel's version.py, or of LibTorch's build-version; empty: neither says.
std::string VersionOf(const fs::path& root) {
  const std::string python = Head(root / "version.py");
  constexpr char kKey[] = "__version__ = ";
  if (const size_t at = python.find(kKey); at != std::string::npos) {
    const size_t begin = at + sizeof(kKey);  // after the quote
    const size_t end = python.find_first_of("'\"\n", begin);
    if (end != std::string::npos) return python.substr(begin, end - begin);
  }
  return std::string(absl::StripAsciiWhitespace(Head(root / "build-version")));
}

std::string Release(const std::string& version) { return version.substr(0, version.find('+')); }

std::string SettingIn(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  for (size_t bytes = 0; bytes < kMaxBytes && std::getline(in, line); bytes += line.size()) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (!text.empty() && text.front() != '#') return std::string(text);
  }
  return "";
}

std::string HowToGet(const WantedTorch& wanted, const std::string& setting_file) {
  return absl::StrCat("python3 -m venv FOLDER && FOLDER/bin/pip install torch==", wanted.version,
                      ", then name FOLDER in ", setting_file, " or in MUSTER_TORCH");
}

absl::StatusOr<FoundTorch> Checked(const fs::path& root, const std::string& named_by,
                                   const WantedTorch& wanted, const std::string& setting_file) {
  FoundTorch torch{root.string(), VersionOf(root)};
  const auto refuse = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("this muster-trainer was built against torch ", wanted.version,
                     wanted.cuda ? " with CUDA" : "", ", but ", torch.root, " (", named_by, ") ",
                     what, "; install the right one: ", HowToGet(wanted, setting_file)));
  };
  if (torch.version.empty()) return refuse("does not say its version");
  if (Release(torch.version) != wanted.version) {
    return refuse(absl::StrCat("is version ", torch.version));
  }
  if (wanted.cuda && !IsThere(root / "lib" / "libtorch_cuda.so")) {
    return refuse(absl::StrCat("is version ", torch.version, ", a build without CUDA"));
  }
  return torch;
}

}  // namespace

absl::StatusOr<FoundTorch> FindTorch(const TorchPlaces& places, const WantedTorch& wanted) {
  std::vector<std::string> looked;
  const std::string setting = SettingIn(places.setting_file);
  const struct {
    const std::string& folder;
    std::string named_by;
    bool must;
  } candidates[] = {{places.variable, "MUSTER_TORCH", true},
                    {places.beside, "beside Muster", false},
                    {setting, places.setting_file, true}};
  for (const auto& [folder, named_by, must] : candidates) {
    const fs::path root = folder.empty() ? fs::path() : RootIn(folder);
    if (!root.empty()) return Checked(root, named_by, wanted, places.setting_file);
    looked.push_back(folder.empty() ? absl::StrCat(named_by, " names no folder")
                                    : absl::StrCat("none in ", folder, " (", named_by, ")"));
    if (must && !folder.empty()) break;
  }
  return absl::NotFoundError(absl::StrCat(
      "torch ", wanted.version, " is needed to train, and was not found: ",
      absl::StrJoin(looked, ", "), "; install it: ", HowToGet(wanted, places.setting_file)));
}

std::string LibraryPath(const FoundTorch& torch, absl::string_view rest) {
  const fs::path root(torch.root);
  std::vector<std::string> folders = {(root / "lib").string()};
  for (const fs::path& package : FoldersIn(root.parent_path() / "nvidia", "")) {
    if (IsThere(package / "lib")) folders.push_back((package / "lib").string());
  }
  if (!rest.empty()) folders.emplace_back(rest);
  return absl::StrJoin(folders, ":");
}

}  // namespace muster::worker
