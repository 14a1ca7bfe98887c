// What a rank refuses, and what its checkpoints say of it.
#include "worker/trainer/rank/rank_program.h"

#include <ATen/ops/zeros.h>
#include <sys/socket.h>

#include <array>
#include <fstream>

#include "common/base/unique_fd.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/trainer/small_spec.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/rank/run_record.h"

namespace muster::worker {
namespace {

using muster::testing::SmallSpec;
using muster::testing::StatusIs;
using muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunRank, RunsNobodyElsesCodeWhereItsAgentDoesNotAllowIt) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd agent(fds[0]);
  ASSERT_OK_AND_ASSIGN(const auto link, LinkClient::Start(UniqueFd(fds[1]), 0));
  for (const char* code : {"plugin", "torchscript"}) {
    trainer_spec::JobSpec spec = SmallSpec();
    spec.train.model = {};
    if (std::string(code) == "plugin") {
      spec.train.model.plugin = {.path = "/nowhere/model.so"};
    } else {
      spec.train.model.torchscript = {.path = "/nowhere/model.pt"};
    }
    Launch launch;
    launch.world_size = 1;
    const absl::Status refused = RunRank(launch, spec, *link).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kPermissionDenied,
                                  HasSubstr("runs without --allow-commands")))
        << code;
    EXPECT_EQ(FailureClassOf(refused), kStartFailed);
    launch.allow_plugins = true;
    EXPECT_NE(RunRank(launch, spec, *link).status().code(), absl::StatusCode::kPermissionDenied)
        << "it may look for the file";
  }
}

TEST(IdentityOf, NamesTheClassesOfTheData) {
  const Dataset::Part part = {at::zeros({2, 3}), at::zeros({2}, at::kLong)};
  const InMemoryDataset dataset({part, part, part}, 2, "pets", {}, {"cat", "dog"});
  const auto gang = Gang::OfOne();
  const RunIdentity identity = IdentityOf({}, SmallSpec(), dataset, *gang, at::kCPU);
  EXPECT_EQ(identity.classes, 2);
  EXPECT_THAT(identity.class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(identity.data_fingerprint, "pets");
}

// As PictureFiles is: compressed, so that a decoder's version matters.
class CompressedPictures final : public Dataset {
 public:
  CompressedPictures() : Dataset({3, 8, 8}, {}, 2, "photos") {}
  int64_t size(Split) const override { return 0; }
  absl::StatusOr<StoredSample> Read(Split, int64_t, std::string&) const override {
    return absl::NotFoundError("none");
  }
  int64_t bytes() const override { return 0; }
  const PictureDecoding* decoding() const override { return &decoding_; }

 private:
  const PictureDecoding decoding_;
};

TEST(IdentityOf, NamesTheDecodersWherePicturesAreDecoded) {
  const auto gang = Gang::OfOne();
  const RunIdentity photos = IdentityOf({}, SmallSpec(), CompressedPictures(), *gang, at::kCPU);
  for (const char* library : {"libjpeg", "libpng", "libwebp"}) {
    ASSERT_EQ(photos.libraries.count(library), 1u) << library;
    EXPECT_NE(photos.libraries.at(library).find_first_of("0123456789"), std::string::npos);
  }
  const Dataset::Part part = {at::zeros({2, 3}), at::zeros({2}, at::kLong)};
  const InMemoryDataset numbers({part, part, part}, 2, "numbers");
  EXPECT_EQ(IdentityOf({}, SmallSpec(), numbers, *gang, at::kCPU).libraries.count("libjpeg"), 0u);
}

TEST(ProgramVersion, TellsTwoBuildsWithoutARepositoryApart) {
  const TempDir dir;
  std::ofstream(dir / "one") << "a program";
  std::ofstream(dir / "other") << "another program";
  EXPECT_EQ(ProgramVersion("0123abc", dir / "one"), "0123abc");
  const std::string one = ProgramVersion("unknown", dir / "one");
  EXPECT_NE(one, "unknown");
  EXPECT_EQ(ProgramVersion("unknown", dir / "one"), one);
  EXPECT_NE(ProgramVersion("unknown", dir / "other"), one);
}

}  // namespace
}  // namespace muster::worker
