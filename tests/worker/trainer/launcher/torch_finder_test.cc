#include "worker/trainer/launcher/torch_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSitePackages[] = "lib/python3.11/site-packages";

class TorchFinder : public ::testing::Test {
 protected:
  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // A virtual environment with as much of a wheel as is looked at.
  std::string Environment(const std::string& name, const std::string& version, bool cuda = false) {
    const fs::path root = fs::path(dir_ / name) / kSitePackages / "torch";
    Write(root / "lib" / "libtorch_cpu.so", "");
    if (cuda) Write(root / "lib" / "libtorch_cuda.so", "");
    Write(root / "version.py",
          absl::StrCat("from typing import Optional\n\n__all__ = ['__version__', 'debug']\n",
                       "__version__ = '", version, "'\ndebug = False\n"));
    return dir_ / name;
  }
  absl::StatusOr<FoundTorch> Find(bool cuda = false) {
    places_.setting_file = dir_ / "setting";
    return FindTorch(places_, {.version = "2.13.0", .cuda = cuda});
  }

  TempDir dir_;
  TorchPlaces places_;
};

TEST_F(TorchFinder, TakesAnEnvironmentASitePackagesAndTheFolderItself) {
  const std::string environment = Environment("venv", "2.13.0+cpu");
  const std::string site = absl::StrCat(environment, "/", kSitePackages);
  for (const std::string& named : {environment, site, site + "/torch"}) {
    places_.variable = named;
    ASSERT_OK_AND_ASSIGN(const FoundTorch torch, Find());
    EXPECT_EQ(torch.root, site + "/torch") << named;
    EXPECT_EQ(torch.version, "2.13.0+cpu");
  }
}

TEST_F(TorchFinder, TakesAnUnpackedLibTorch) {
  Write(dir_ / "libtorch/lib/libtorch_cpu.so", "");
  Write(dir_ / "libtorch/build-version", "2.13.0+cu130\n");
  Write(dir_ / "setting", "# where torch is\n\n  " + (dir_ / "libtorch") + " \n/elsewhere\n");
  ASSERT_OK_AND_ASSIGN(const FoundTorch torch, Find());
  EXPECT_EQ(torch.root, dir_ / "libtorch");
  EXPECT_EQ(torch.version, "2.13.0+cu130");
}

TEST_F(TorchFinder, TheVariableGoesBeforeWhatIsBesideAndThatBeforeTheSetting) {
  const std::string suffix = absl::StrCat("/", kSitePackages);
  Write(dir_ / "setting", Environment("setting-venv", "2.13.0"));
  ASSERT_OK_AND_ASSIGN(const FoundTorch set, Find());
  EXPECT_THAT(set.root, HasSubstr("setting-venv"));
  places_.beside = Environment("beside-venv", "2.13.0") + suffix;
  ASSERT_OK_AND_ASSIGN(const FoundTorch beside, Find());
  EXPECT_THAT(beside.root, HasSubstr("beside-venv"));
  places_.variable = Environment("named-venv", "2.13.0");
  ASSERT_OK_AND_ASSIGN(const FoundTorch named, Find());
  EXPECT_THAT(named.root, HasSubstr("named-venv"));
}

TEST_F(TorchFinder, RefusesAnotherVersionAndSaysBothAndTheWayOut) {
  places_.variable = Environment("venv", "2.11.0+cu130");
  EXPECT_THAT(Find(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("built against torch 2.13.0"),
                             HasSubstr("MUSTER_TORCH) is version 2.11.0+cu130"),
                             HasSubstr("pip install torch==2.13.0"), HasSubstr(dir_ / "setting"))));
}

TEST_F(TorchFinder, ATrainerForCudaWantsABuildWithCudaAndOneForTheCpuTakesEither) {
  places_.variable = Environment("venv", "2.13.0+cpu");
  EXPECT_THAT(Find(/*cuda=*/true), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("2.13.0+cpu, a build without CUDA")));
  places_.variable = Environment("cuda-venv", "2.13.0+cu130", /*cuda=*/true);
  EXPECT_OK(Find(/*cuda=*/true));
  EXPECT_OK(Find(/*cuda=*/false));
}

TEST_F(TorchFinder, ATorchOfNoVersionIsRefused) {
  places_.variable = Environment("venv", "2.13.0");
  fs::remove(fs::path(places_.variable) / kSitePackages / "torch" / "version.py");
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("does not say its version")));
}

TEST_F(TorchFinder, SaysWhereItLookedWhenThereIsNone) {
  places_.beside = dir_ / "site";
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kNotFound,
                               AllOf(HasSubstr("MUSTER_TORCH names no folder"),
                                     HasSubstr(absl::StrCat("none in ", dir_ / "site")),
                                     HasSubstr(absl::StrCat(dir_ / "setting", " names no folder")),
                                     HasSubstr("pip install torch==2.13.0"))));
}

// Who names a folder means it: the torch beside Muster is not taken in its place.
TEST_F(TorchFinder, AFolderThatIsNamedAndHasNoTorchIsAnError) {
  places_.beside = absl::StrCat(Environment("venv", "2.13.0"), "/", kSitePackages);
  places_.variable = dir_ / "nowhere";
  EXPECT_THAT(Find(), StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr(absl::StrCat("none in ", dir_ / "nowhere"))));
}

TEST_F(TorchFinder, TheLibraryPathHasCudasWheelsAndWhatWasThere) {
  places_.variable = Environment("venv", "2.13.0+cu130", /*cuda=*/true);
  const std::string site = absl::StrCat(places_.variable, "/", kSitePackages);
  Write(fs::path(site) / "nvidia/cu13/lib/libcudart.so.13", "");
  Write(fs::path(site) / "nvidia/nccl/lib/libnccl.so.2", "");
  ASSERT_OK_AND_ASSIGN(const FoundTorch torch, Find());
  EXPECT_EQ(
      LibraryPath(torch, "/own"),
      absl::StrCat(site, "/torch/lib:", site, "/nvidia/cu13/lib:", site, "/nvidia/nccl/lib:/own"));
  EXPECT_EQ(LibraryPath({.root = "/t", .version = ""}, ""), "/t/lib");
}

}  // namespace
}  // namespace muster::worker
