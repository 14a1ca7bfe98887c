// The examples in configs/ are valid, as they are shipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/spec/load_spec.h"
#include "common/spec/spec_writer.h"
#include "tests/support/status_matchers.h"
#include "trainer_spec/job_spec.h"

namespace muster {
namespace {

std::string Folder() {
  const char* source = std::getenv("MUSTER_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/configs";
}

std::string ReadText(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ConfigsTest, EveryExampleIsValidCommentedAndNamedAfterItsFile) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    ASSERT_EQ(entry.path().extension(), ".yaml") << entry.path();
    const std::string text = ReadText(entry.path());
    EXPECT_EQ(text.rfind("# ", 0), 0u) << entry.path() << " does not say what it is for";
    ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec,
                         LoadSpec(text, {.name = entry.path().filename(), .base_dir = "/work"}));
    EXPECT_EQ(spec.name(), entry.path().stem().string());
    EXPECT_OK(trainer_spec::DecodeJobSpec(SpecToJson(spec))) << entry.path();
    names.insert(spec.name());
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"digits-resnet18", "mlp-synthetic",
                                              "resnet18-synthetic", "resnet18-gpu-bf16",
                                              "vit-digits", "mae-digits", "mae-digits-finetune",
                                              "gpt2-124m", "gpt2-tiny-text", "resnet18-finetune"}));
}

TEST(ConfigsTest, TheQuickstartTrainsASmallResNetOnTwoRanks) {
  ASSERT_OK_AND_ASSIGN(
      const v1::JobSpec spec,
      LoadSpec(ReadText(Folder() + "/digits-resnet18.yaml"), {.base_dir = "/work/configs"}));
  EXPECT_EQ(spec.ranks().min(), 2u);
  EXPECT_EQ(spec.per_rank().gpus(), 0u);
  EXPECT_EQ(spec.train().model().resnet18().width(), 16u);
  EXPECT_EQ(spec.train().data().digits().image_size(), 16u);
  EXPECT_EQ(spec.train().data().digits().path(), "/work/configs/../data/digits");
}

}  // namespace
}  // namespace muster
