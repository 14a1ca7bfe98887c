#include "controller/store/set_aside.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::TempDir;

const absl::Time kNow = absl::FromUnixSeconds(1'767'323'045);  // 2026-01-02T03:04:05Z

class SetAsideTest : public ::testing::Test {
 protected:
  void Write(const std::string& name) { std::ofstream(dir_ / name) << name; }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  AsideDatabase SetAside(absl::Time now) {
    Write("metrics.db");
    Write("metrics.db-wal");
    auto aside = SetAsideDatabase(dir_ / "metrics.db", now);
    EXPECT_OK(aside);
    return aside.ok() ? *std::move(aside) : AsideDatabase();
  }

  TempDir dir_;
};

TEST_F(SetAsideTest, ADatabaseGoesWithItsLog) {
  const AsideDatabase aside = SetAside(kNow);
  EXPECT_EQ(aside.path, dir_ / "metrics.db.broken-20260102T030405Z");
  EXPECT_TRUE(aside.removed.empty());
  EXPECT_EQ(Files(), (std::set<std::string>{"metrics.db.broken-20260102T030405Z",
                                            "metrics.db.broken-20260102T030405Z-wal"}));
}

TEST_F(SetAsideTest, TheOldestGoWhenThereAreTooManyAndNothingElseDoes) {
  const std::set<std::string> foreign = {"state.db", "state.db.broken-20200102T030405Z",
                                         "metrics.db.bak", "metrics.db-notes"};
  for (const std::string& name : foreign) Write(name);
  std::vector<std::string> paths;
  for (size_t i = 0; i < kMostSetAside; ++i) {
    const AsideDatabase aside = SetAside(kNow + absl::Hours(i));
    EXPECT_TRUE(aside.removed.empty());
    paths.push_back(aside.path);
  }
  // A log that was left alone counts as its database would.
  std::filesystem::remove(paths[0]);
  for (size_t i = 0; i < 2; ++i) {
    const AsideDatabase aside = SetAside(kNow + absl::Hours(kMostSetAside + i));
    EXPECT_EQ(aside.removed, std::vector<std::string>{paths[i]});
    paths.push_back(aside.path);
  }
  std::set<std::string> left = foreign;
  for (size_t i = 2; i < paths.size(); ++i) {
    const std::string name = std::filesystem::path(paths[i]).filename();
    left.insert({name, absl::StrCat(name, "-wal")});
  }
  EXPECT_EQ(Files(), left);
}

TEST_F(SetAsideTest, TheOneThatGoesAsideNowStaysWhateverTheClockSays) {
  for (size_t i = 0; i < kMostSetAside; ++i) SetAside(kNow + absl::Hours(i));
  const AsideDatabase aside = SetAside(kNow - absl::Hours(1));
  EXPECT_EQ(aside.removed.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(aside.path));
}

}  // namespace
}  // namespace muster::controller
