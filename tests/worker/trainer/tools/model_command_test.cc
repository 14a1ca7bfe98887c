#include "worker/trainer/tools/model_command.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "worker/trainer/tools/model_catalog.h"
#include "worker/trainer/tools/model_report.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGpt2Spec[] = R"({"name": "tiny", "train": {
  "model": {"gpt2": {"layers": 1, "heads": 2, "width": 8, "context": 16, "vocabulary": 256}},
  "data": {"text": {"path": "/nowhere", "context": 16}},
  "optimizer": {"name": "sgd", "momentum": 0.9}}})";

TEST(ModelCommand, ListsThePublishedNumbersOfParameters) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ListModels(ModelFormat::kJson));
  std::map<std::string, int64_t> parameters;
  for (const json& entry : json::parse(text)) parameters[entry["name"]] = entry["parameters"];
  EXPECT_EQ(parameters.size(), ModelCatalog().size());
  EXPECT_EQ(parameters["resnet18"], 11'689'512);
  EXPECT_EQ(parameters["resnet34"], 21'797'672);
  EXPECT_EQ(parameters["resnet50"], 25'557'032);
  EXPECT_EQ(parameters["resnet101"], 44'549'160);
  EXPECT_EQ(parameters["vit-b-16"], 86'567'656);
  EXPECT_EQ(parameters["vit-l-16"], 304'326'632);
  EXPECT_EQ(parameters["mae-tiny"], 6'007'296);
  EXPECT_EQ(parameters["mae-small"], 25'045'760);
  EXPECT_EQ(parameters["mae-base"], 111'655'680);
  EXPECT_EQ(parameters["mae-large"], 329'239'296);
  EXPECT_EQ(parameters["gpt2-small"], 124'439'808);
  EXPECT_EQ(parameters["gpt2-medium"], 354'823'168);
  EXPECT_THAT(ListModels(ModelFormat::kTable).value(), HasSubstr("124,439,808"));
}

TEST(ModelCommand, ShowsTensorsAndWhatTrainingHoldsInMemory) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ShowModel("resnet18-small", ModelFormat::kJson));
  const json shown = json::parse(text);
  EXPECT_EQ(shown["tensors"].size(), 122u);
  EXPECT_EQ(shown["tensors"][0]["name"], "conv1.weight");
  EXPECT_EQ(shown["tensors"][0]["shape"], (std::vector<int64_t>{64, 3, 3, 3}));
  int64_t parameters = 0;
  for (const json& tensor : shown["tensors"]) {
    if (tensor["kind"] == "parameter") parameters += tensor["elements"].get<int64_t>();
  }
  EXPECT_EQ(shown["parameters"], parameters);
  EXPECT_EQ(shown["gradient_bytes"], 4 * parameters);
  EXPECT_GT(shown["weight_bytes"], 4 * parameters);  // and the running statistics
  // AdamW keeps two moments of each parameter, and its step.
  EXPECT_GE(shown["optimizer_bytes"], 8 * parameters);
  EXPECT_LT(shown["optimizer_bytes"], 8 * parameters + 1000);
}

TEST(ModelCommand, ShowsTheModelOfASpecWithoutItsData) {
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ShowModelOfSpec(kGpt2Spec, false, PosixFileSystem(), ModelFormat::kTable));
  // Of one block: 12 x 8 x 8 weights and 13 x 8 biases and norms; 256 tokens, 16 positions, a norm.
  EXPECT_THAT(text, AllOf(HasSubstr("tiny: 3,064 parameters"),
                          HasSubstr("transformer.h.0.attn.c_attn.weight  [8, 24]")));
}

TEST(ModelCommand, SaysWhatItCannotShow) {
  EXPECT_THAT(ShowModel("gpt9", ModelFormat::kTable),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("'gpt9'"), HasSubstr("resnet18, "), HasSubstr("-f"))));
  for (const char* code :
       {R"("model": {"plugin": {"path": "/a.so"}})", R"("model": {"torchscript": {"path": "/a"}})",
        R"("distill": {"teacher": "/t", "model": {"torchscript": {"path": "/a"}}})"}) {
    EXPECT_THAT(ShowModelOfSpec(absl::StrCat(R"({"train": {)", code, "}}"), false,
                                PosixFileSystem(), ModelFormat::kTable),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("model."), HasSubstr("--allow-commands"))))
        << code;
  }
  EXPECT_THAT(ShowModelOfSpec("{", false, PosixFileSystem(), ModelFormat::kTable),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ModelReport, WritesSizesForPeople) {
  EXPECT_EQ(CountText(7), "7");
  EXPECT_EQ(CountText(1'000), "1,000");
  EXPECT_EQ(CountText(124'439'808), "124,439,808");
  EXPECT_EQ(BytesText(17), "17 B");
  EXPECT_EQ(BytesText(12 << 10), "12.0 KiB");
  EXPECT_EQ(BytesText((int64_t{3} << 30) / 2), "1.5 GiB");
}

}  // namespace
}  // namespace muster::worker
