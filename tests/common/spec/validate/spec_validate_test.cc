#include "common/spec/validate/spec_validate.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/spec/load_spec.h"
#include "common/spec/spec_writer.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/validate/spec_defaults.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kSmallest[] = R"(
name: small
train:
  model: {mlp: {}}
  data: {synthetic: {}}
  batch_size: 8
  epochs: 1
)";

v1::JobSpec Good() {
  auto spec = LoadSpec(kSmallest);
  EXPECT_OK(spec);
  return *std::move(spec);
}

std::vector<std::string> Texts(const std::vector<SpecFault>& faults) {
  std::vector<std::string> texts;
  for (const SpecFault& fault : faults) texts.push_back(FaultText(fault));
  return texts;
}

// A recipe with a teacher that is right, for a test to spoil.
v1::Distill* Teacher(v1::JobSpec& spec) {
  v1::Distill* distill = spec.mutable_train()->mutable_distill();
  distill->set_teacher("/teacher.safetensors");
  distill->set_temperature(4);
  distill->set_alpha(0.5);
  distill->mutable_model()->mutable_mlp()->add_hidden(8);
  return distill;
}

v1::Prune* Pruning(v1::JobSpec& spec) {
  v1::Prune* prune = spec.mutable_train()->mutable_prune();
  prune->set_sparsity(0.8);
  prune->set_end_step(50);
  prune->set_every_steps(10);
  prune->set_pattern("*.weight");
  return prune;
}

TEST(SpecDefaultsTest, EveryDefaultIsWrittenOut) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(kSmallest));
  EXPECT_EQ(
      SpecToJson(spec),
      R"({"name":"small","project":"default","ranks":{"min":1,"max":1},"per_rank":{"gpus":0},)"
      R"("placement":{"pool":"default","wait_for_capacity":false},)"
      R"("checkpoint":{"every_steps":0,"every_epochs":1,"keep_last":3,"every":"0s"},)"
      R"("restart":{"max_restarts":5,"backoff":"1s","max_backoff":"1m","controller_lost_timeout":"1h","progress_timeout":"10m"},)"
      R"("train":{"model":{"mlp":{"hidden":[256,256]}},)"
      R"("data":{"synthetic":{"samples":4096,"shape":[3,32,32],"classes":10},"subset":0,"threads":0,"shuffle_window":0},"batch_size":8,"epochs":1.0,)"
      R"("optimizer":{"name":"adamw","lr":0.001,"weight_decay":0.01,"beta1":0.9,"beta2":0.999,"eps":1e-08,)"
      R"("layer_decay":1.0,"decay_norms_and_biases":false},)"
      R"("schedule":{"name":"cosine","warmup_steps":0,"final_fraction":0.0,"start_fraction":0.0},"precision":"fp32","clip_norm":0.0,)"
      R"("label_smoothing":0.0,"validate_every_epochs":1,"validate_every_steps":0,"seed":0,"threads_per_rank":1,)"
      R"("deterministic":false,"report_every_steps":10,"accumulate":1,"clip_value":0.0,"loss":"cross_entropy",)"
      R"("augment":{"crop_padding":0,"crop_min_area":0.0,"flip":0.0,"rand_augment_operations":0,)"
      R"("rand_augment_magnitude":9.0,"erase":0.0,"mixup":0.0,"cutmix":0.0,"vertical_flip":0.0,)"
      R"("trivial_augment":false,"auto_augment":"none","color_jitter":{"brightness":0.0,)"
      R"("contrast":0.0,"saturation":0.0,"hue":0.0,"chance":1.0},"grey":0.0,"blur":0.0,)"
      R"("erase_fill":"half"},)"
      R"("parallel":{"sync_batch_norm":false,"compression":"none","static_graph":false,"transport":"auto"},)"
      R"("memory":{"checkpoint_blocks":false},)"
      R"("validate_samples":0,"validate_before_save":false},)"
      R"("scheduling":{"priority_class":"normal","priority":0,"preemptible":true,"hold":false}})");
}

TEST(SpecDefaultsTest, DefaultsFollowTheModelTheDataAndTheOptimizer) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(R"(
name: x
ranks: {min: 2}
restart: {backoff: 5m}
train:
  model: {resnet18: }
  data: {digits: {path: /d}}
  batch_size: 8
  steps: 5
  optimizer: {name: sgd}
)"));
  EXPECT_EQ(spec.ranks().max(), 2u);
  EXPECT_EQ(spec.train().model().resnet18().width(), 64u);
  EXPECT_EQ(spec.train().model().resnet18().stem(), v1::STEM_SMALL);
  EXPECT_EQ(spec.train().data().digits().image_size(), 16u);
  EXPECT_EQ(spec.train().optimizer().momentum(), 0.9);
  EXPECT_EQ(spec.train().optimizer().weight_decay(), 0.0);
  EXPECT_FALSE(spec.train().optimizer().nesterov());
  EXPECT_FALSE(spec.train().optimizer().has_beta1());
  EXPECT_EQ(FromProto(spec.restart().max_backoff()), absl::Minutes(5));
}

TEST(SpecDefaultsTest, SourcesOfAMixtureHaveTheDefaultsOfTheirKind) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(R"(
name: x
train:
  model: {gpt2: }
  data:
    mixture:
      sources:
      - {text: {path: /a, context: 64}}
      - {name: code, text: {path: /b, context: 64}}
  batch_size: 8
  steps: 5
)"));
  const v1::Mixture& mixture = spec.train().data().mixture();
  ASSERT_EQ(mixture.sources_size(), 2);
  EXPECT_EQ(mixture.sources(0).name(), "0");
  EXPECT_EQ(mixture.sources(1).name(), "code");
  EXPECT_FALSE(mixture.sources(0).has_weight());
  // The model's follow the data's.
  EXPECT_EQ(spec.train().model().gpt2().context(), 64u);
  EXPECT_EQ(spec.train().model().gpt2().vocabulary(), 256u);
}

// Of each source that has a path.
TEST(SpecDefaultsTest, APathOfDataHasNoSlashAtItsEnd) {
  const google::protobuf::Descriptor& data = *v1::Data::descriptor();
  int sources = 0;
  for (int i = 0; i < data.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* source = data.field(i);
    if (source->message_type() == nullptr) continue;
    const auto* path = source->message_type()->FindFieldByName("path");
    if (path == nullptr) continue;
    v1::JobSpec spec;
    v1::Data& filled = *spec.mutable_train()->mutable_data();
    google::protobuf::Message& files = *filled.GetReflection()->MutableMessage(&filled, source);
    files.GetReflection()->SetString(&files, path, "s3://bucket/in/");
    FillDefaults(spec);
    EXPECT_EQ(files.GetReflection()->GetString(files, path), "s3://bucket/in") << source->name();
    ++sources;
  }
  EXPECT_EQ(sources, 7);
}

TEST(SpecDefaultsTest, EachOptimizerAndScheduleHasDefaultsOfItsOwn) {
  const auto resolved = [](const char* settings) {
    auto spec = LoadSpec(absl::StrCat(kSmallest, settings));
    EXPECT_OK(spec);
    return spec->train();
  };
  v1::Train lars = resolved("  optimizer: {name: lars, base_lr: 0.3}\n");
  EXPECT_EQ(lars.optimizer().weight_decay(), 0.0001);
  EXPECT_EQ(lars.optimizer().momentum(), 0.9);
  EXPECT_EQ(lars.optimizer().trust_coefficient(), 0.001);
  EXPECT_EQ(lars.optimizer().base_batch(), 256u);
  EXPECT_FALSE(lars.optimizer().has_lr());
  EXPECT_FALSE(lars.optimizer().has_nesterov());
  EXPECT_EQ(resolved("  optimizer: {name: adam}\n").optimizer().weight_decay(), 0.0);
  EXPECT_EQ(resolved("  optimizer: {name: lamb}\n").optimizer().eps(), 1e-6);
  const v1::Train lion = resolved("  optimizer: {name: lion}\n  schedule: {name: one_cycle}\n");
  EXPECT_EQ(lion.optimizer().beta2(), 0.99);
  EXPECT_FALSE(lion.optimizer().has_eps());
  EXPECT_EQ(lion.schedule().start_fraction(), 0.04);
  EXPECT_EQ(lion.schedule().final_fraction(), 4e-6);
  EXPECT_EQ(lion.schedule().rise_fraction(), 0.3);
}

TEST(SpecDefaultsTest, AGroupTakesTheOptimizersSettingsUnlessItIsFrozen) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(absl::StrCat(kSmallest, R"(
  optimizer:
    weight_decay: 0.3
    groups:
      - {pattern: "*.bias"}
      - {pattern: "0.*", frozen: true}
      - {pattern: "2.*", lr_scale: 0.1, weight_decay: 0}
)")));
  const auto& groups = spec.train().optimizer().groups();
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].weight_decay(), 0.3);
  EXPECT_EQ(groups[0].lr_scale(), 1.0);
  EXPECT_FALSE(groups[0].frozen());
  EXPECT_FALSE(groups[1].has_weight_decay());
  EXPECT_FALSE(groups[1].has_lr_scale());
  EXPECT_EQ(groups[2].lr_scale(), 0.1);
  EXPECT_EQ(groups[2].weight_decay(), 0.0);
}

TEST(SpecDefaultsTest, ALanguageModelFollowsItsSizeAndItsText) {
  constexpr char kTokens[] = R"(
name: x
train: {model: {gpt2: {size: medium}}, data: {tokens: {path: /d}}, batch_size: 8, steps: 5}
)";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec medium, LoadSpec(kTokens));
  EXPECT_EQ(medium.train().model().gpt2().layers(), 24u);
  EXPECT_EQ(medium.train().model().gpt2().heads(), 16u);
  EXPECT_EQ(medium.train().model().gpt2().width(), 1024u);
  EXPECT_EQ(medium.train().model().gpt2().context(), 1024u);
  EXPECT_EQ(medium.train().model().gpt2().vocabulary(), 50257u);
  EXPECT_EQ(medium.train().data().tokens().context(), 1024u);
  constexpr char kText[] = R"(
name: x
train: {model: {gpt2: {layers: 2}}, data: {text: {path: d, context: 64}}, batch_size: 8, steps: 5}
)";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec text, LoadSpec(kText, {.base_dir = "/home/me"}));
  EXPECT_EQ(text.train().model().gpt2().layers(), 2u);
  EXPECT_EQ(text.train().model().gpt2().width(), 768u);
  EXPECT_EQ(text.train().model().gpt2().context(), 64u);
  EXPECT_EQ(text.train().model().gpt2().vocabulary(), 256u);
  EXPECT_EQ(text.train().data().text().path(), "/home/me/d");
}

TEST(SpecDefaultsTest, WhatWasGivenStaysAndFillingTwiceChangesNothing) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_optimizer()->set_lr(0);
  spec.mutable_checkpoint()->set_every_epochs(0);
  FillDefaults(spec);
  EXPECT_EQ(spec.train().optimizer().lr(), 0.0);
  EXPECT_EQ(spec.checkpoint().every_epochs(), 0u);
  v1::JobSpec again = spec;
  FillDefaults(again);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(spec, again));
}

TEST(SpecDefaultsTest, TransformersTakeWhatWasNotGivenFromTheirSize) {
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec vit, LoadSpec(R"(
name: x
train:
  model: {vit: {size: b_16, layers: 2, patch_size: 8}}
  data: {digits: {path: /d}}
  batch_size: 8
  steps: 5
)"));
  EXPECT_EQ(vit.train().model().vit().layers(), 2u);
  EXPECT_EQ(vit.train().model().vit().heads(), 12u);
  EXPECT_EQ(vit.train().model().vit().width(), 768u);
  EXPECT_EQ(vit.train().model().vit().mlp_width(), 3072u);
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec mae, LoadSpec(R"(
name: x
train:
  model: {mae: {width: 64, heads: 4, patch_size: 4}}
  data: {digits: {path: /d}}
  batch_size: 8
  steps: 5
  artifacts: {reconstructions_every_steps: 2}
)"));
  EXPECT_EQ(mae.train().model().mae().layers(), 12u);
  EXPECT_EQ(mae.train().model().mae().mlp_width(), 256u);
  EXPECT_EQ(mae.train().model().mae().decoder_width(), 128u);
  EXPECT_EQ(mae.train().model().mae().mask_ratio(), 0.75);
  EXPECT_TRUE(mae.train().model().mae().norm_pix_loss());
}

v1::Vit& FilledVit(v1::JobSpec& spec) {
  spec.mutable_train()->mutable_model()->mutable_vit();
  FillDefaults(spec);
  return *spec.mutable_train()->mutable_model()->mutable_vit();
}

v1::Mae& FilledMae(v1::JobSpec& spec) {
  spec.mutable_train()->mutable_model()->mutable_mae();
  FillDefaults(spec);
  return *spec.mutable_train()->mutable_model()->mutable_mae();
}

TEST(SpecValidateTest, NetworksForTextAndFromFilesHoldTheirBounds) {
  const struct {
    std::function<void(v1::Model&, v1::Data&)> change;
    const char* fault;
  } kCases[] = {
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_layers(0); },
       "train.model.gpt2.layers: must be from 1 to 1024; got 0"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_heads(0); },
       "train.model.gpt2.heads: must be from 1 to 1024; got 0"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_heads(7); },
       "train.model.gpt2.width: must be a multiple of heads, which is 7; got 768"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_width(12 * 8192); },
       "train.model.gpt2.width: must be from 1 to 65536; got 98304"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_dropout(1); },
       "train.model.gpt2.dropout: must be from 0 to below 1; got 1"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_context(2 << 20); },
       "train.model.gpt2.context: must be from 1 to 1048576; got 2097152"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_context(63); },
       "train.model.gpt2.context: must be at least the data's, which is 64; got 63"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_vocabulary(2 << 24); },
       "train.model.gpt2.vocabulary: must be from 2 to 16777216; got 33554432"},
      {[](v1::Model& m, v1::Data&) { m.mutable_gpt2()->set_vocabulary(255); },
       "train.model.gpt2.vocabulary: must be at least the data's, which is 256; got 255"},
      {[](v1::Model&, v1::Data& d) { d.mutable_digits()->set_path("/d"); },
       "train.model.gpt2: needs train.data.text or train.data.tokens"},
      {[](v1::Model&, v1::Data& d) { d.mutable_text()->set_context(0); },
       "train.data.text.context: must be from 1 to 1048576; got 0"},
      {[](v1::Model&, v1::Data& d) { d.mutable_text()->clear_path(); },
       "train.data.text.path: is required: the text file, or the folder of text files"},
      {[](v1::Model&, v1::Data& d) {
         d.mutable_tokens()->set_context(64);
         d.mutable_tokens()->set_vocabulary(256);
       },
       "train.data.tokens.path: is required: the folder that holds train.bin and val.bin"},
      {[](v1::Model&, v1::Data& d) {
         d.mutable_tokens()->set_path("/t");
         d.mutable_tokens()->set_context(0);
         d.mutable_tokens()->set_vocabulary(256);
       },
       "train.data.tokens.context: must be from 1 to 1048576; got 0"},
      {[](v1::Model&, v1::Data& d) {
         d.mutable_tokens()->set_path("/t");
         d.mutable_tokens()->set_context(64);
         d.mutable_tokens()->set_vocabulary(1);
       },
       "train.data.tokens.vocabulary: must be from 2 to 16777216; got 1"},
      {[](v1::Model& m, v1::Data&) { m.mutable_mlp()->add_hidden(4); },
       "train.data: is text: it needs a language model, such as train.model.gpt2"},
      {[](v1::Model& m, v1::Data&) { m.mutable_resnet50(); },
       "train.data: is text: it needs a language model, such as train.model.gpt2"},
      {[](v1::Model& m, v1::Data&) { m.mutable_vit(); },
       "train.data: is text: it needs a language model, such as train.model.gpt2"},
      {[](v1::Model& m, v1::Data&) { m.mutable_torchscript(); },
       "train.model.torchscript.path: is required: the file that torch.jit saved"},
      {[](v1::Model& m, v1::Data&) { m.mutable_plugin(); },
       "train.model.plugin.path: is required: the shared library"},
      {[](v1::Model& m, v1::Data&) { m.mutable_plugin()->set_path("a.so"); },
       "train.model.plugin.path: must be an absolute path, as workers see it; got 'a.so'"},
      {[](v1::Model& m, v1::Data&) {
         m.mutable_plugin()->set_path("/a.so");
         m.mutable_plugin()->set_model("");
       },
       "train.model.plugin.model: must not be empty"},
      {[](v1::Model& m, v1::Data&) {
         m.mutable_plugin()->set_path("/a.so");
         (*m.mutable_plugin()->mutable_options())["a b"] = "c";
       },
       "train.model.plugin.options.a b: the name must be"},
  };
  constexpr char kText[] = R"(
name: x
train: {model: {gpt2: {}}, data: {text: {path: /d, context: 64}}, batch_size: 8, steps: 5}
)";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec good, LoadSpec(kText));
  for (const auto& c : kCases) {
    v1::JobSpec spec = good;
    c.change(*spec.mutable_train()->mutable_model(), *spec.mutable_train()->mutable_data());
    FillDefaults(spec);
    EXPECT_THAT(Texts(ValidateSpec(spec)), ElementsAre(HasSubstr(c.fault)));
  }
  v1::JobSpec plugin = good;
  plugin.mutable_train()->mutable_model()->mutable_plugin()->set_path("/a.so");
  EXPECT_THAT(Texts(ValidateSpec(plugin)), IsEmpty());
}

// Grey pictures, with every default.
v1::Images& GoodImages(v1::JobSpec& spec) {
  v1::Images& images = *spec.mutable_train()->mutable_data()->mutable_images();
  images.set_path("/d");
  images.set_size(32);
  images.set_channels(1);
  images.add_mean(0.5);
  images.add_std(0.5);
  images.set_center_crop(0.875);
  return images;
}

// Two sources with weights, and a phase.
v1::Mixture& GoodMixture(v1::JobSpec& spec) {
  v1::Mixture& mixture = *spec.mutable_train()->mutable_data()->mutable_mixture();
  for (const char* name : {"a", "b"}) {
    v1::MixtureSource& source = *mixture.add_sources();
    source.set_name(name);
    source.set_weight(1);
    source.mutable_numpy()->set_path("/d");
  }
  v1::MixturePhase& phase = *mixture.add_phases();
  phase.set_from_step(10);
  phase.add_weights(0);
  phase.add_weights(2);
  return mixture;
}

TEST(SpecValidateTest, EveryBoundIsHeldWithWhatIsAllowedAndWhatWasGiven) {
  using Spec = v1::JobSpec;
  const struct {
    std::function<void(Spec&)> change;
    const char* fault;
  } kCases[] = {
      {[](Spec& s) { s.clear_name(); }, "name: is required"},
      {[](Spec& s) { s.set_name("Big"); },
       "name: must be 1 to 63 of a-z, 0-9 and '-', with no '-' at either end; got 'Big'"},
      {[](Spec& s) { s.set_name("-a"); }, "name: must be 1 to 63"},
      {[](Spec& s) { s.set_name(std::string(64, 'a')); }, "name: must be 1 to 63"},
      {[](Spec& s) { s.set_project(""); }, "project: must be 1 to 63"},
      {[](Spec& s) {
         for (int i = 0; i < 33; ++i) (*s.mutable_tags())["k" + std::to_string(i)] = "v";
       },
       "tags: must have at most 32 entries; got 33"},
      {[](Spec& s) { (*s.mutable_tags())["a b"] = "v"; }, "tags.a b: the name must be"},
      {[](Spec& s) { (*s.mutable_tags())["a"] = std::string(129, 'v'); },
       "tags.a: must have at most 128 bytes; got 129"},
      {[](Spec& s) { (*s.mutable_tags())["a"] = "b\nc"; },
       "tags.a: must not hold control characters"},
      {[](Spec& s) { s.mutable_ranks()->set_min(0); }, "ranks.min: must be from 1 to 4096; got 0"},
      {[](Spec& s) {
         s.mutable_ranks()->set_max(4097);
         s.mutable_train()->set_batch_size(5000);
       },
       "ranks.max: must be from 1 to 4096; got 4097"},
      {[](Spec& s) {
         s.mutable_ranks()->set_min(3);
         s.mutable_ranks()->set_max(2);
       },
       "ranks.max: must be at least ranks.min, which is 3; got 2"},
      {[](Spec& s) { s.mutable_ranks()->set_max(9); },
       "train.batch_size: must be at least ranks.max, which is 9, so that each rank has a sample; "
       "got 8"},
      {[](Spec& s) { s.mutable_per_rank()->set_gpus(65); },
       "per_rank.gpus: must be from 0 to 64; got 65"},
      {[](Spec& s) { s.mutable_per_rank()->set_gpu_type("H100"); },
       "per_rank.gpu_type: needs per_rank.gpus of at least 1"},
      {[](Spec& s) { s.mutable_per_rank()->set_cpus(5000); },
       "per_rank.cpus: must be from 0 to 4096; got 5000"},
      {[](Spec& s) { s.mutable_per_rank()->set_memory("0"); }, "per_rank.memory: must be above 0"},
      {[](Spec& s) { s.mutable_placement()->add_pools("spot"); },
       "placement.pools: give only one of pool and pools"},
      {[](Spec& s) {
         s.mutable_placement()->clear_pool();
         s.mutable_placement()->add_pools("spot soon");
       },
       "placement.pools[0]: must be a pool's name, or 'NAME after 10m'"},
      {[](Spec& s) {
         s.mutable_placement()->clear_pool();
         s.mutable_placement()->add_pools("Spot");
       },
       "placement.pools[0]: must be 1 to 63 of a-z"},
      {[](Spec& s) { s.mutable_placement()->add_exclude(""); },
       "placement.exclude[0]: must not be empty"},
      {[](Spec& s) { s.mutable_scheduling()->set_priority(1000); },
       "scheduling.priority: must be from -999 to 999; got 1000"},
      {[](Spec& s) { s.mutable_scheduling()->mutable_max_run_time(); },
       "scheduling.max_run_time: must be from 1s to 8760h; got 0s"},
      {[](Spec& s) { s.mutable_scheduling()->set_deadline("tomorrow"); },
       "scheduling.deadline: must be a time with a zone"},
      {[](Spec& s) { s.mutable_scheduling()->set_begin("now"); },
       "scheduling.begin: must be a time with a zone"},
      {[](Spec& s) { s.mutable_scheduling()->add_after("x"); },
       "scheduling.after[0]: must be a job's id"},
      {[](Spec& s) { s.mutable_scheduling()->set_array("9-1"); },
       "scheduling.array: must be like '1-20'"},
      {[](Spec& s) { s.mutable_restart()->mutable_budgets()->set_hang(1001); },
       "restart.budgets.hang: must be from 0 to 1000; got 1001"},
      {[](Spec& s) { s.mutable_placement()->set_pool("a_b"); }, "placement.pool: must be 1 to 63"},
      {[](Spec& s) { (*s.mutable_placement()->mutable_selector())[""] = "v"; },
       "placement.selector.: the name must be"},
      {[](Spec& s) { s.mutable_checkpoint()->set_url("a/b"); },
       "checkpoint.url: must be an absolute path, as workers see it; got 'a/b'"},
      {[](Spec& s) { s.mutable_checkpoint()->set_resume_from("42@"); },
       "checkpoint.resume_from: must be a job (its id, its name, or 42_7 of an array)"},
      {[](Spec& s) { s.mutable_checkpoint()->set_url("s3://b/k"); },
       "checkpoint.url: must be an absolute path or a file:// URL; got 's3://b/k'"},
      {[](Spec& s) { s.mutable_checkpoint()->set_url("file://host/x"); },
       "checkpoint.url: must be an absolute path"},
      {[](Spec& s) { s.mutable_checkpoint()->set_url("/" + std::string(5000, 'a')); },
       "checkpoint.url: must have at most 4096 bytes; got 5001"},
      {[](Spec& s) { s.mutable_checkpoint()->set_url(std::string("/a\0b", 4)); },
       "checkpoint.url: must not hold control characters"},
      {[](Spec& s) { s.mutable_checkpoint()->set_every_steps(~0ull); },
       "checkpoint.every_steps: must be from 0 to"},
      {[](Spec& s) { s.mutable_checkpoint()->set_every_epochs(~0u); },
       "checkpoint.every_epochs: must be from 0 to"},
      {[](Spec& s) { s.mutable_checkpoint()->set_keep_last(1); },
       "checkpoint.keep_last: must be from 2 to 1000; got 1"},
      {[](Spec& s) { s.mutable_checkpoint()->mutable_every()->set_nanos(1000); },
       "checkpoint.every: must be from 1s to 720h"},
      {[](Spec& s) { s.mutable_restart()->set_max_restarts(1001); },
       "restart.max_restarts: must be from 0 to 1000; got 1001"},
      {[](Spec& s) { s.mutable_restart()->mutable_backoff()->set_seconds(-1); },
       "restart.backoff: must be from 0s to 24h; got -1s"},
      {[](Spec& s) { s.mutable_restart()->mutable_max_backoff()->set_seconds(90000); },
       "restart.max_backoff: must be from 0s to 24h; got 25h"},
      {[](Spec& s) { s.mutable_restart()->mutable_backoff()->set_seconds(61); },
       "restart.max_backoff: must be at least restart.backoff, which is 1m1s; got 1m"},
      {[](Spec& s) { s.mutable_restart()->mutable_controller_lost_timeout()->set_seconds(0); },
       "restart.controller_lost_timeout: must be from 1s to 720h; got 0s"},
      {[](Spec& s) {
         s.mutable_restart()->mutable_progress_timeout()->set_seconds(
             std::numeric_limits<int64_t>::max());
       },
       "restart.progress_timeout: must be from 1s to 720h"},
      {[](Spec& s) { s.clear_train(); }, "train: is required, or command instead of it"},
      {[](Spec& s) { s.mutable_train()->clear_model(); },
       "train.model: is required: one of mlp, resnet18"},
      {[](Spec& s) { s.mutable_train()->clear_data(); },
       "train.data: is required: one of synthetic, digits"},
      {[](Spec& s) { s.mutable_train()->clear_batch_size(); }, "train.batch_size: is required"},
      {[](Spec& s) { s.mutable_train()->set_batch_size(1 << 25); },
       "train.batch_size: must be from 1 to 16777216; got 33554432"},
      {[](Spec& s) { s.mutable_train()->clear_epochs(); },
       "train.epochs: is required, or train.steps instead of it"},
      {[](Spec& s) { s.mutable_train()->set_steps(1); },
       "train.epochs: give only one of epochs and steps"},
      {[](Spec& s) { s.mutable_train()->set_epochs(0); },
       "train.epochs: must be above 0 and at most"},
      {[](Spec& s) { s.mutable_train()->set_epochs(std::nan("")); },
       "train.epochs: must be above 0"},
      {[](Spec& s) {
         s.mutable_train()->clear_epochs();
         s.mutable_train()->set_steps(0);
       },
       "train.steps: must be from 1 to"},
      {[](Spec& s) { s.mutable_train()->mutable_model()->mutable_mlp()->set_hidden(1, 0); },
       "train.model.mlp.hidden[1]: must be from 1 to 65536; got 0"},
      {[](Spec& s) {
         for (int i = 0; i < 63; ++i)
           s.mutable_train()->mutable_model()->mutable_mlp()->add_hidden(1);
       },
       "train.model.mlp.hidden: must have at most 64 layers; got 65"},
      {[](Spec& s) { s.mutable_train()->mutable_model()->mutable_resnet18()->set_width(0); },
       "train.model.resnet18.width: must be from 1 to 1024; got 0"},
      {[](Spec& s) { s.mutable_train()->mutable_model()->mutable_resnet101()->set_width(2000); },
       "train.model.resnet101.width: must be from 1 to 1024; got 2000"},
      {[](Spec& s) { FilledVit(s).set_heads(5); },
       "train.model.vit.width: must be a multiple of heads, which is 5; got 192"},
      {[](Spec& s) { FilledVit(s).set_layers(0); },
       "train.model.vit.layers: must be from 1 to 1024; got 0"},
      {[](Spec& s) { FilledVit(s).set_patch_size(10); },
       "train.model.vit.patch_size: must divide the pictures' height and width; 10 does not "
       "divide 32"},
      {[](Spec& s) { FilledVit(s).set_dropout(1); },
       "train.model.vit.dropout: must be from 0 to below 1; got 1"},
      {[](Spec& s) { FilledVit(s).set_attention_dropout(-1); },
       "train.model.vit.attention_dropout: must be from 0 to below 1; got -1"},
      {[](Spec& s) {
         FilledVit(s);
         s.mutable_train()->mutable_data()->mutable_synthetic()->mutable_shape()->Truncate(1);
       },
       "train.data.synthetic.shape: must be [channels, height, width] for vit"},
      {[](Spec& s) { FilledMae(s).set_mask_ratio(1); },
       "train.model.mae.mask_ratio: must be above 0 and below 1; got 1"},
      {[](Spec& s) { FilledMae(s).set_decoder_heads(3); },
       "train.model.mae.decoder_width: must be a multiple of decoder_heads, which is 3; got 128"},
      {[](Spec& s) { FilledMae(s).set_width(6); },
       "train.model.mae.width: must be a multiple of 4; got 6"},
      {[](Spec& s) { s.mutable_train()->mutable_artifacts()->set_reconstructions_every_steps(5); },
       "train.artifacts.reconstructions_every_steps: is only for the model mae"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_synthetic()->set_samples(9); },
       "train.data.synthetic.samples: must be from 10 to"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_synthetic()->set_classes(1); },
       "train.data.synthetic.classes: must be from 2 to 100000; got 1"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_synthetic()->add_shape(1); },
       "train.data.synthetic.shape: must be [features] or [channels, height, width]; got 4 "
       "numbers"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_synthetic()->set_shape(0, 0); },
       "train.data.synthetic.shape[0]: must be from 1 to"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_synthetic();
         for (int i = 0; i < 3; ++i) d->set_shape(i, 1 << 20);
       },
       "train.data.synthetic.shape: must multiply to at most"},
      {[](Spec& s) {
         s.mutable_train()->mutable_model()->mutable_resnet18()->set_width(8);
         s.mutable_train()->mutable_data()->mutable_synthetic()->mutable_shape()->Truncate(1);
       },
       "train.data.synthetic.shape: must be [channels, height, width] for resnet18"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_cifar_bin(); },
       "train.data.cifar_bin.path: is required: the folder that holds data_batch_1.bin"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_numpy(); },
       "train.data.numpy.path: is required: the folder that holds train_inputs.npy"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_numpy();
         d->set_path("/d");
         d->add_mean(0.5);
       },
       "train.data.numpy.std: must have as many numbers as mean"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_numpy();
         d->set_path("/d");
         d->add_mean(0.5);
         d->add_std(0);
       },
       "train.data.numpy.std[0]: must be above 0"},
      {[](Spec& s) { GoodImages(s).clear_path(); },
       "train.data.images.path: is required: the folder of pictures, or of shards"},
      {[](Spec& s) { GoodImages(s).set_size(4); },
       "train.data.images.size: must be from 8 to 1024; got 4"},
      {[](Spec& s) { GoodImages(s).set_channels(2); },
       "train.data.images.channels: must be 1 or 3; got 2"},
      {[](Spec& s) { GoodImages(s).add_mean(0.5); },
       "train.data.images.mean: must have a number for each of 1 channels; got 2"},
      {[](Spec& s) { GoodImages(s).set_std(0, 0); }, "train.data.images.std[0]: must be above 0"},
      {[](Spec& s) { GoodImages(s).set_center_crop(1.5); },
       "train.data.images.center_crop: must be above 0"},
      {[](Spec& s) { GoodImages(s).set_classes(2'000'000); },
       "train.data.images.classes: must be from 0 to 1000000"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->set_threads(257); },
       "train.data.threads: must be from 0 to 256; got 257"},
      {[](Spec& s) {
         GoodMixture(s);
         s.mutable_train()->mutable_data()->set_subset(5);
       },
       "train.data.subset: is not for a mixture"},
      {[](Spec& s) {
         s.mutable_train()->mutable_data()->set_subset(5);
         s.mutable_train()->mutable_data()->set_shuffle_window(5);
       },
       "train.data.shuffle_window: is not for a subset"},
      {[](Spec& s) {
         v1::Mixture& mixture = GoodMixture(s);
         mixture.clear_phases();
         mixture.mutable_sources()->RemoveLast();
       },
       "train.data.mixture.sources: wants two or more: give a single one without a mixture"},
      {[](Spec& s) { GoodMixture(s).mutable_sources(1)->clear_numpy(); },
       "train.data.mixture.sources[1]: is required: one of synthetic, digits, "},
      {[](Spec& s) { GoodMixture(s).mutable_sources(1)->mutable_numpy()->clear_path(); },
       "train.data.mixture.sources[1].numpy.path: is required"},
      {[](Spec& s) { GoodMixture(s).mutable_sources(1)->clear_weight(); },
       "train.data.mixture.sources: give a weight to all of them, or to none"},
      {[](Spec& s) { GoodMixture(s).mutable_sources(1)->set_weight(std::nan("")); },
       "train.data.mixture.sources[1]: must be from 0 to "},
      {[](Spec& s) {
         for (v1::MixtureSource& source : *GoodMixture(s).mutable_sources()) source.set_weight(0);
       },
       "train.data.mixture.sources: must have a weight above 0"},
      {[](Spec& s) {
         for (v1::MixtureSource& source : *GoodMixture(s).mutable_sources()) source.clear_weight();
       },
       "train.data.mixture.phases: want sources with weights, which hold until the first phase"},
      {[](Spec& s) { GoodMixture(s).mutable_phases(0)->clear_from_step(); },
       "train.data.mixture.phases[0].from_step: must be above 0; got 0"},
      {[](Spec& s) {
         v1::Mixture& mixture = GoodMixture(s);
         *mixture.add_phases() = mixture.phases(0);
       },
       "train.data.mixture.phases[1].from_step: must be above 10; got 10"},
      {[](Spec& s) { GoodMixture(s).mutable_phases(0)->add_weights(1); },
       "train.data.mixture.phases[0].weights: must have a number for each of 2 sources; got 3"},
      {[](Spec& s) { GoodMixture(s).mutable_phases(0)->set_weights(1, 0); },
       "train.data.mixture.phases[0].weights: must have a weight above 0"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->set_memory_limit("0"); },
       "train.data.memory_limit: must be above 0"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_csv()->set_target("y"); },
       "train.data.csv.path: is required: the CSV file"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_csv()->set_path("/d"); },
       "train.data.csv.target: is required: the column that is to be learnt"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_csv();
         d->set_path("/d");
         d->set_target("y");
         d->add_features("y");
       },
       "train.data.csv.features[0]: must name a column other than the target"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_flip(1.5); },
       "train.augment.flip: must be from 0 to 1; got 1.5"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_rand_augment_magnitude(31); },
       "train.augment.rand_augment_magnitude: must be from 0 to 30; got 31"},
      {[](Spec& s) {
         auto* augment = s.mutable_train()->mutable_augment();
         augment->set_rand_augment_operations(2);
         augment->set_trivial_augment(true);
         augment->set_auto_augment(v1::AUTO_AUGMENT_SVHN);
       },
       "train.augment: has rand_augment_operations and trivial_augment and auto_augment: keep one "
       "of them"},
      {[](Spec& s) {
         s.mutable_train()->mutable_augment()->set_trivial_augment(true);
         s.mutable_train()->mutable_augment()->set_auto_augment(v1::AUTO_AUGMENT_CIFAR10);
       },
       "train.augment: has trivial_augment and auto_augment: keep one of them"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_vertical_flip(-0.1); },
       "train.augment.vertical_flip: must be from 0 to 1; got -0.1"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_grey(2); },
       "train.augment.grey: must be from 0 to 1; got 2"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_blur(std::nan("")); },
       "train.augment.blur: must be from 0 to 1; got nan"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->mutable_color_jitter()->set_hue(0.6); },
       "train.augment.color_jitter.hue: must be from 0 to 0.5; got 0.6"},
      {[](Spec& s) {
         s.mutable_train()->mutable_augment()->mutable_color_jitter()->set_saturation(11);
       },
       "train.augment.color_jitter.saturation: must be from 0 to 10; got 11"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_crop_padding(2000); },
       "train.augment.crop_padding: must be from 0 to 1024; got 2000"},
      {[](Spec& s) { s.mutable_train()->mutable_augment()->set_mixup(-1); },
       "train.augment.mixup: must be from 0 to 10; got -1"},
      {[](Spec& s) {
         s.mutable_train()->mutable_model()->mutable_resnet50()->set_width(8);
         s.mutable_train()->mutable_data()->mutable_synthetic()->mutable_shape()->Truncate(1);
       },
       "train.data.synthetic.shape: must be [channels, height, width] for resnet50"},
      {[](Spec& s) { s.mutable_train()->mutable_data()->mutable_digits()->set_image_size(16); },
       "train.data.digits.path: is required: the folder that holds digits.csv"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_digits();
         d->set_path("d");
         d->set_image_size(16);
       },
       "train.data.digits.path: must be an absolute path, as workers see it; got 'd'"},
      {[](Spec& s) {
         auto* d = s.mutable_train()->mutable_data()->mutable_digits();
         d->set_path("/d");
         d->set_image_size(10);
       },
       "train.data.digits.image_size: must be 8, 16, 24 or 32; got 10"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_lr(0); },
       "train.optimizer.lr: must be above 0 and at most 1000; got 0"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_lr(std::nan("")); },
       "train.optimizer.lr: must be above 0"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_weight_decay(-1); },
       "train.optimizer.weight_decay: must be from 0 to 100; got -1"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_beta1(1); },
       "train.optimizer.beta1: must be from 0 to below 1; got 1"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_beta2(-0.5); },
       "train.optimizer.beta2: must be from 0 to below 1; got -0.5"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_eps(0); },
       "train.optimizer.eps: must be above 0 and at most 1; got 0"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_momentum(0.9); },
       "train.optimizer.momentum: is only for the optimizer sgd and lars"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_nesterov(false); },
       "train.optimizer.nesterov: is only for the optimizer sgd"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_trust_coefficient(0.1); },
       "train.optimizer.trust_coefficient: is only for the optimizer lars"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_layer_decay(0); },
       "train.optimizer.layer_decay: must be above 0 and at most 1; got 0"},
      {[](Spec& s) {
         s.mutable_train()->mutable_optimizer()->set_base_lr(0.1);
         s.mutable_train()->mutable_optimizer()->set_base_batch(256);
       },
       "train.optimizer.base_lr: give only one of lr and base_lr"},
      {[](Spec& s) { s.mutable_train()->mutable_optimizer()->set_base_batch(256); },
       "train.optimizer.base_batch: needs base_lr"},
      {[](Spec& s) {
         auto* group = s.mutable_train()->mutable_optimizer()->add_groups();
         group->set_lr_scale(1);
       },
       "train.optimizer.groups[0].pattern: is required"},
      {[](Spec& s) {
         auto* group = s.mutable_train()->mutable_optimizer()->add_groups();
         group->set_pattern("fc.*");
         group->set_frozen(true);
         group->set_lr_scale(2);
       },
       "train.optimizer.groups[0].lr_scale: is not for a frozen group"},
      {[](Spec& s) {
         auto* group = s.mutable_train()->mutable_optimizer()->add_groups();
         group->set_pattern("fc.*");
         group->set_lr_scale(0);
       },
       "train.optimizer.groups[0].lr_scale: must be above 0 and at most 1000; got 0"},
      {[](Spec& s) {
         auto* group = s.mutable_train()->mutable_optimizer()->add_groups();
         group->set_pattern("fc.*");
         group->set_lr_scale(1);
         group->GetReflection()->MutableUnknownFields(group)->AddVarint(900, 1);
       },
       "train.optimizer.groups[0]: has the field number 900"},
      {[](Spec& s) {
         s.mutable_train()->mutable_ema()->set_decay(1);
         s.mutable_train()->mutable_ema()->set_every_steps(1);
       },
       "train.ema.decay: must be from 0 to below 1; got 1"},
      {[](Spec& s) { s.mutable_train()->mutable_ema()->set_decay(0.9); },
       "train.ema.every_steps: must be from 1 to 1000000; got 0"},
      {[](Spec& s) { s.mutable_train()->mutable_weights(); }, "train.weights.path: is required"},
      {[](Spec& s) { s.mutable_train()->mutable_weights()->set_path("w"); },
       "train.weights.path: must be an absolute path"},
      {[](Spec& s) {
         auto* weights = s.mutable_train()->mutable_weights();
         weights->set_path("/w");
         weights->add_map()->set_from("a");
       },
       "train.weights.map[0]: needs both from and to"},
      {[](Spec& s) {
         auto* weights = s.mutable_train()->mutable_weights();
         weights->set_path("/w");
         weights->add_map()->set_from("a.*");
         weights->mutable_map(0)->set_to("a.");
       },
       "train.weights.map[0]: must have one `*` in both from and to, or none in either"},
      {[](Spec& s) { Teacher(s)->clear_teacher(); }, "train.distill.teacher: is required"},
      {[](Spec& s) { Teacher(s)->set_alpha(1.5); }, "train.distill.alpha: must be from 0 to 1"},
      {[](Spec& s) { Teacher(s)->set_temperature(0); },
       "train.distill.temperature: must be above 0"},
      {[](Spec& s) { Teacher(s)->mutable_model()->mutable_mlp()->set_hidden(0, 0); },
       "train.distill.model.mlp.hidden[0]: must be from 1"},
      {[](Spec& s) { Teacher(s)->clear_model(); }, "train.distill.model: is required: one of"},
      {[](Spec& s) { Teacher(s)->mutable_model()->mutable_plugin()->set_path("/p"); },
       "train.distill.model.plugin: a teacher is no plug-in"},
      {[](Spec& s) {
         Teacher(s);
         s.mutable_train()->set_loss(v1::LOSS_NAME_MSE);
       },
       "train.distill: is only for the losses cross_entropy and bce"},
      {[](Spec& s) { Pruning(s)->clear_sparsity(); }, "train.prune.sparsity: is required"},
      {[](Spec& s) { Pruning(s)->set_sparsity(1); },
       "train.prune.sparsity: must be above 0 and below 1; got 1"},
      {[](Spec& s) { Pruning(s)->clear_end_step(); }, "train.prune.end_step: is required"},
      {[](Spec& s) { Pruning(s)->set_begin_step(60); },
       "train.prune.end_step: must be from 60 to 1000000000000; got 50"},
      {[](Spec& s) {
         Pruning(s);
         s.mutable_train()->clear_epochs();
         s.mutable_train()->set_steps(40);
       },
       "train.prune.end_step: must be at most train.steps, which is 40; got 50"},
      {[](Spec& s) { Pruning(s)->set_every_steps(0); }, "train.prune.every_steps: must be from 1"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_gamma(0.5); },
       "train.schedule.gamma: is only for the schedule step"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_power(2); },
       "train.schedule.power: is only for the schedule polynomial"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_rise_fraction(0.5); },
       "train.schedule.rise_fraction: is only for the schedule one_cycle"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_start_fraction(-0.1); },
       "train.schedule.start_fraction: must be from 0 to 1; got -0.1"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->add_milestones(5); },
       "train.schedule.milestones: is only for the schedule step"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_name(v1::Schedule::NAME_STEP); },
       "train.schedule.milestones: is required"},
      {[](Spec& s) {
         auto* schedule = s.mutable_train()->mutable_schedule();
         schedule->set_name(v1::Schedule::NAME_STEP);
         schedule->add_milestones(5);
         schedule->add_milestones(5);
       },
       "train.schedule.milestones[1]: must be above the one before it"},
      {[](Spec& s) {
         auto* schedule = s.mutable_train()->mutable_schedule();
         schedule->set_name(v1::Schedule::NAME_ONE_CYCLE);
         schedule->set_warmup_steps(5);
       },
       "train.schedule.warmup_steps: is not for one_cycle, which warms up by itself"},
      {[](Spec& s) {
         auto* schedule = s.mutable_train()->mutable_schedule();
         schedule->set_name(v1::Schedule::NAME_ONE_CYCLE);
         schedule->set_rise_fraction(1);
       },
       "train.schedule.rise_fraction: must be above 0 and below 1; got 1"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_final_fraction(1.5); },
       "train.schedule.final_fraction: must be from 0 to 1; got 1.5"},
      {[](Spec& s) { s.mutable_train()->mutable_schedule()->set_warmup_steps(~0ull); },
       "train.schedule.warmup_steps: must be from 0 to"},
      {[](Spec& s) {
         s.mutable_train()->clear_epochs();
         s.mutable_train()->set_steps(5);
         s.mutable_train()->mutable_schedule()->set_warmup_steps(6);
       },
       "train.schedule.warmup_steps: must be at most train.steps, which is 5; got 6"},
      {[](Spec& s) { s.mutable_train()->set_clip_norm(-1); },
       "train.clip_norm: must be from 0 to 1e+06; got -1"},
      {[](Spec& s) { s.mutable_train()->set_label_smoothing(1); },
       "train.label_smoothing: must be from 0 to below 1; got 1"},
      {[](Spec& s) {
         s.mutable_train()->set_label_smoothing(0.1);
         s.mutable_train()->set_loss(v1::LOSS_NAME_MSE);
       },
       "train.label_smoothing: is only for the losses cross_entropy and bce"},
      {[](Spec& s) { s.mutable_train()->set_clip_value(-1); },
       "train.clip_value: must be from 0 to 1e+06; got -1"},
      {[](Spec& s) {
         s.mutable_train()->set_clip_norm(1);
         s.mutable_train()->set_clip_value(1);
       },
       "train.clip_value: give only one of clip_norm and clip_value"},
      {[](Spec& s) { s.mutable_train()->set_accumulate(0); },
       "train.accumulate: must be from 1 to 65536; got 0"},
      {[](Spec& s) { s.mutable_train()->set_accumulate(9); },
       "train.accumulate: must be at most the samples of one rank, which are 8; got 9"},
      {[](Spec& s) { s.mutable_train()->mutable_memory()->set_checkpoint_blocks(true); },
       "train.memory.checkpoint_blocks: is not for mlp"},
      {[](Spec& s) { s.mutable_train()->mutable_loss_scale(); },
       "train.loss_scale: is only for precision fp16"},
      {[](Spec& s) {
         s.mutable_train()->set_precision(v1::PRECISION_FP16);
         FillDefaults(s);
         s.mutable_train()->mutable_loss_scale()->set_initial(0.5);
       },
       "train.loss_scale.initial: must be from 1 to"},
      {[](Spec& s) {
         s.mutable_train()->set_precision(v1::PRECISION_FP16);
         FillDefaults(s);
         s.mutable_train()->mutable_loss_scale()->set_growth_interval(0);
       },
       "train.loss_scale.growth_interval: must be from 1 to"},
      {[](Spec& s) {
         s.mutable_train()->set_precision(v1::PRECISION_FP16);
         FillDefaults(s);
         s.mutable_train()->mutable_loss_scale()->set_max_skips(1001);
       },
       "train.loss_scale.max_skips: must be from 1 to 1000; got 1001"},
      {[](Spec& s) { s.mutable_train()->set_validate_every_epochs(~0u); },
       "train.validate_every_epochs: must be from 0 to"},
      {[](Spec& s) { s.mutable_train()->set_validate_every_steps(~0ull); },
       "train.validate_every_steps: must be from 0 to"},
      {[](Spec& s) { s.mutable_train()->set_threads_per_rank(0); },
       "train.threads_per_rank: must be from 1 to 1024; got 0"},
      {[](Spec& s) { s.mutable_train()->set_report_every_steps(0); },
       "train.report_every_steps: must be from 1 to 1000000; got 0"},
      {[](Spec& s) { s.mutable_train()->set_precision(v1::PRECISION_UNSPECIFIED); },
       "train.precision: must be one of fp32, bf16, tf32, fp16; got the number 0"},
      {[](Spec& s) { s.mutable_train()->set_precision(static_cast<v1::Precision>(77)); },
       "train.precision: must be one of fp32, bf16, tf32, fp16; got the number 77"},
      {[](Spec& s) {
         s.mutable_train()->mutable_parallel()->set_compression(v1::COMPRESSION_UNSPECIFIED);
       },
       "train.parallel.compression: must be one of none, fp16, bf16; got the number 0"},
      {[](Spec& s) {
         s.mutable_train()->mutable_parallel()->set_transport(static_cast<v1::Transport>(9));
       },
       "train.parallel.transport: must be one of auto, gloo, shared_memory; got the number 9"},
      {[](Spec& s) {
         auto* t = s.mutable_train();
         t->GetReflection()->MutableUnknownFields(t)->AddVarint(900, 1);
       },
       "train: has the field number 900, which this version does not know"},
  };
  for (const auto& c : kCases) {
    v1::JobSpec spec = Good();
    c.change(spec);
    EXPECT_THAT(Texts(ValidateSpec(spec)), ElementsAre(HasSubstr(c.fault)));
  }
}

TEST(SpecValidateTest, WhatIsAboutClassesIsRefusedForNetworksThatLearnWithoutThem) {
  v1::JobSpec mae = Good();
  FilledMae(mae);
  EXPECT_THAT(Texts(ValidateSpec(mae)), IsEmpty());
  v1::Train& train = *mae.mutable_train();
  train.set_loss(v1::LOSS_NAME_BCE);
  train.set_label_smoothing(0.1);
  train.mutable_artifacts()->set_confusion(true);
  train.mutable_augment()->set_mixup(0.2);
  train.mutable_augment()->set_cutmix(1);
  constexpr char kUnlabelled[] = "is not for mae, which learns without classes: leave it out";
  EXPECT_THAT(Texts(ValidateSpec(mae)),
              ElementsAre("train.loss: is not for mae, which makes the squared error of the hidden "
                          "patches smaller: leave it out",
                          absl::StrCat("train.label_smoothing: ", kUnlabelled),
                          absl::StrCat("train.artifacts.confusion: ", kUnlabelled),
                          absl::StrCat("train.augment.mixup: ", kUnlabelled),
                          absl::StrCat("train.augment.cutmix: ", kUnlabelled)));
}

TEST(SpecValidateTest, TextKnowsOneLoss) {
  for (const char* data : {"text: {path: /d, context: 64}", "tokens: {path: /d, context: 64}"}) {
    const std::string job = absl::StrCat("name: x\ntrain:\n  model: {gpt2: }\n  data: {", data,
                                         "}\n  batch_size: 8\n  steps: 5\n");
    EXPECT_OK(LoadSpec(absl::StrCat(job, "  loss: cross_entropy\n  label_smoothing: 0.1\n")));
    for (const char* loss : {"bce", "mse"}) {
      EXPECT_THAT(LoadSpec(absl::StrCat(job, "  loss: ", loss, "\n")),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("train.loss: is not for text, whose loss is the "
                                     "cross-entropy of what follows each token: leave it out")));
    }
    const std::string other =
        "  artifacts: {confusion: true}\n  augment: {mixup: 0.2, cutmix: 1}\n";
    constexpr char kNoClass[] = "is not for text, whose samples have no class: leave it out";
    EXPECT_THAT(LoadSpec(absl::StrCat(job, other)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(absl::StrCat("train.artifacts.confusion: ", kNoClass)),
                               HasSubstr(absl::StrCat("train.augment.mixup: ", kNoClass)),
                               HasSubstr(absl::StrCat("train.augment.cutmix: ", kNoClass)))));
  }
}

TEST(SpecValidateTest, SettingsOfTheOtherOptimizerAreRefused) {
  v1::JobSpec spec = Good();
  v1::Optimizer& optimizer = *spec.mutable_train()->mutable_optimizer();
  optimizer.set_name(v1::Optimizer::NAME_SGD);
  optimizer.set_momentum(0);
  optimizer.set_nesterov(true);
  EXPECT_THAT(
      Texts(ValidateSpec(spec)),
      ElementsAre("train.optimizer.nesterov: needs a momentum above 0",
                  "train.optimizer.beta1: is only for the optimizer adam, adamw, lamb and lion",
                  "train.optimizer.beta2: is only for the optimizer adam, adamw, lamb and lion",
                  "train.optimizer.eps: is only for the optimizer adam, adamw and lamb"));
}

TEST(SpecValidateTest, BoundsThemselvesAreAllowed) {
  v1::JobSpec spec = Good();
  spec.set_name(std::string(63, 'a'));
  spec.mutable_ranks()->set_max(4096);
  spec.mutable_train()->set_batch_size(1 << 24);
  spec.mutable_restart()->mutable_backoff()->set_seconds(0);
  spec.mutable_checkpoint()->set_url("file:///a");
  spec.mutable_checkpoint()->set_keep_last(2);
  EXPECT_THAT(Texts(ValidateSpec(spec)), IsEmpty());
}

// Each rank of a training gang asks for each other one's address.
TEST(SpecValidateTest, ACommandMayHaveMoreRanksThanATraining) {
  v1::JobSpec spec = Good();
  spec.clear_train();
  spec.mutable_command()->add_argv("true");
  spec.mutable_command()->set_workdir("/tmp");
  spec.mutable_ranks()->set_max(16384);
  EXPECT_THAT(Texts(ValidateSpec(spec)), IsEmpty());
  spec.mutable_ranks()->set_max(16385);
  EXPECT_THAT(Texts(ValidateSpec(spec)),
              ElementsAre("ranks.max: must be from 1 to 16384; got 16385"));
}

TEST(LoadSpecTest, FaultsOfReadingAndOfBoundsComeTogetherByLine) {
  const auto spec = LoadSpec(R"(name: x
train:
  model: {mlp: {}}
  optimizer: {lrr: 1}
  batch_size: 0
  report_every_steps: 0
)",
                             {.name = "job.yaml", .overrides = {"ranks=9000"}});
  EXPECT_THAT(spec,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "job.yaml: 8 faults:\n"
                       "  line 2: train.data: is required: one of synthetic, digits, cifar_bin, "
                       "numpy, text, tokens, images, csv, mixture\n"
                       "  line 2: train.epochs: is required, or train.steps instead of it\n"
                       "  line 4: train.optimizer.lrr: unknown key; did you mean `lr`?\n"
                       "  line 5: train.batch_size: must be from 1 to 16777216; got 0\n"
                       "  line 5: train.batch_size: must be at least ranks.max, which is 9000, so "
                       "that each rank has a sample; got 0\n"
                       "  line 6: train.report_every_steps: must be from 1 to 1000000; got 0\n"
                       "  ranks.min: must be from 1 to 4096; got 9000\n"
                       "  ranks.max: must be from 1 to 4096; got 9000"));
}

TEST(LoadSpecTest, AKeyThatCouldNotBeReadIsNotCalledMissingAsWell) {
  EXPECT_THAT(
      LoadSpec("name: x\ntrain: {model: {resnet19: }, data: {synthetic: }, batch_size: \"8\", "
               "steps: a}"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("3 faults"), HasSubstr("`resnet18`?"), Not(HasSubstr("required")))));
  EXPECT_THAT(LoadSpec("name: ["),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("not valid YAML"), Not(HasSubstr("required")))));
}

TEST(LoadSpecTest, ACommandIsAListOfWordsAndRunsWhereItWasSubmitted) {
  SpecSource source;
  source.base_dir = "/home/me/jobs";
  source.overrides_dir = "/home/me";
  source.overrides = {"command.env.GREETING=\"a: b\""};
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec,
                       LoadSpec("{name: x, command: [python, train.py, \"1\"]}", source));
  EXPECT_THAT(spec.command().argv(), ::testing::ElementsAre("python", "train.py", "1"));
  EXPECT_EQ(spec.command().workdir(), "/home/me");
  EXPECT_EQ(spec.command().env().at("GREETING"), "a: b");
  EXPECT_EQ(FromProto(spec.restart().progress_timeout()), absl::ZeroDuration());
  EXPECT_FALSE(spec.has_train());
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec there,
                       LoadSpec("{name: x, command: {argv: [a], workdir: src}}", source));
  EXPECT_EQ(there.command().workdir(), "/home/me/jobs/src");
}

TEST(LoadSpecTest, WithAnUploadTheWorkdirIsAFolderInIt) {
  SpecSource source;
  source.overrides_dir = "/home/me";
  const std::string hash(64, 'a');
  ASSERT_OK_AND_ASSIGN(v1::JobSpec spec,
                       LoadSpec("{name: x, command: {argv: [a], upload: " + hash + "}}", source));
  EXPECT_EQ(spec.command().workdir(), ".");
  for (const char* outside : {"/etc", "../x", "a/..", ""}) {
    spec.mutable_command()->set_workdir(outside);
    EXPECT_THAT(ResolveSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("relative path in the uploaded folder")))
        << outside;
  }
}

TEST(LoadSpecTest, WithAnImageTheWorkdirIsInTheImage) {
  SpecSource source;
  source.base_dir = source.overrides_dir = "/home/me";
  const std::string job = "{name: x, command: {argv: [a], image: \"python:3.12\"";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec own, LoadSpec(job + "}}", source));
  EXPECT_EQ(own.command().image(), "python:3.12");
  EXPECT_FALSE(own.command().has_workdir());
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec there, LoadSpec(job + ", workdir: /src}}", source));
  EXPECT_EQ(there.command().workdir(), "/src");
  EXPECT_THAT(LoadSpec(job + ", workdir: src}}", source),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("command.workdir: must be")));
  const std::string upload = ", upload: " + std::string(64, 'a');
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec both, LoadSpec(job + upload + "}}", source));
  EXPECT_EQ(both.command().workdir(), ".");
  EXPECT_THAT(LoadSpec(job + upload + ", workdir: /src}}", source),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("relative path in the uploaded folder")));
}

TEST(LoadSpecTest, AnImageIsAReferenceOrASifFile) {
  v1::JobSpec spec;
  spec.set_name("x");
  spec.mutable_command()->add_argv("a");
  const std::string digest = "@sha256:" + std::string(64, 'b');
  for (const std::string& good :
       {std::string("python"), std::string("localhost/x:tag"), std::string("h:5000/a/b_c.d:V-1"),
        std::string("docker.io/library/python:3.12"), "a/b:c" + digest, "a" + digest,
        std::string("/images/a b.sif")}) {
    spec.mutable_command()->set_image(good);
    EXPECT_OK(ResolveSpec(spec)) << good;
  }
  for (const std::string& bad : {std::string(),
                                 std::string("-v"),
                                 std::string("--privileged"),
                                 std::string("a b"),
                                 std::string("a\n--privileged"),
                                 std::string("docker-archive:/etc/passwd"),
                                 std::string("docker://python"),
                                 std::string("dir:/etc"),
                                 std::string("a//b"),
                                 std::string("a/-v"),
                                 std::string("a:"),
                                 std::string("a:-t"),
                                 std::string("a@sha256:12"),
                                 std::string("a/"),
                                 std::string("h:x/a"),
                                 std::string("/images/a"),
                                 std::string("/etc/\n.sif"),
                                 std::string("a;b"),
                                 std::string("$(a)"),
                                 std::string(513, 'a')}) {
    spec.mutable_command()->set_image(bad);
    EXPECT_THAT(ResolveSpec(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("command.image: ")))
        << bad;
  }
}

TEST(LoadSpecTest, FaultsOfACommandComeTogether) {
  EXPECT_THAT(LoadSpec("{name: x, command: python train.py}"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no shell splits a text")));
  v1::JobSpec spec;
  spec.set_name("x");
  spec.mutable_train();
  v1::Command& command = *spec.mutable_command();
  command.add_argv("");
  command.add_argv(std::string("a\0b", 3));
  command.add_argv(std::string((32 << 10) + 1, 'x'));
  (*command.mutable_env())["RANK"] = "0";
  (*command.mutable_env())["MUSTER_X"] = "0";
  (*command.mutable_env())["1A"] = "0";
  (*command.mutable_env())["GOOD"] = std::string((16 << 10) + 1, 'x');
  const auto resolved = ResolveSpec(spec);
  for (const char* fault :
       {"9 faults", "command: give only one of train and command",
        "command.argv[0]: must name a program", "command.argv[1]: must not hold a zero byte",
        "command.argv[2]: must have at most 32768 bytes; got 32769",
        "command.env.RANK: is set by Muster itself", "command.env.MUSTER_X: is set by Muster",
        "command.env.1A: the name must be 1 to 128 letters",
        "command.env.GOOD: must have at most 16384 bytes", "command.workdir: is required"}) {
    EXPECT_THAT(resolved, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(fault)));
  }
  command.Clear();
  command.set_upload("abc");
  EXPECT_THAT(ResolveSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("command.argv: is required"),
                                                HasSubstr("command.upload: must be a SHA-256"))));
}

TEST(LoadSpecTest, ATeacherIsTheStudentsNetworkUnlessItIsGivenAndItsFileIsAPath) {
  SpecSource source;
  source.base_dir = "/home/me";
  source.overrides = {"train.model={resnet18: {width: 16}}",
                      "train.distill={teacher: big/teacher}"};
  ASSERT_OK_AND_ASSIGN(v1::JobSpec spec, LoadSpec(kSmallest, source));
  EXPECT_EQ(spec.train().distill().teacher(), "/home/me/big/teacher");
  EXPECT_EQ(spec.train().distill().model().resnet18().width(), 16u);
  EXPECT_EQ(spec.train().distill().temperature(), 4);
  EXPECT_EQ(spec.train().distill().alpha(), 0.5);
  source.overrides.push_back("train.distill.model={resnet50: {}}");
  ASSERT_OK_AND_ASSIGN(spec, LoadSpec(kSmallest, source));
  EXPECT_EQ(spec.train().distill().model().resnet50().width(), 64u);
  source.overrides.back() = "train.distill.model={mae: {}}";
  EXPECT_THAT(
      LoadSpec(kSmallest, source),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("train.distill: is only for networks "
                                                             "that tell classes or tokens apart")));
}

TEST(LoadSpecTest, AnEmptyTextLacksWhatIsRequired) {
  EXPECT_THAT(
      LoadSpec(""),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          "spec: 2 faults:\n  name: is required\n  train: is required, or command instead of it"));
}

TEST(LoadSpecTest, OneFaultIsOneLine) {
  EXPECT_THAT(LoadSpec(kSmallest, {.name = "a.yaml", .overrides = {"train.optimizer.lrr=1"}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "a.yaml: train.optimizer.lrr: unknown key; did you mean `lr`?"));
}

TEST(LoadSpecTest, RelativePathsStartAtTheGivenFolder) {
  SpecSource source;
  source.overrides = {"train.data={digits: {path: data/digits}}", "checkpoint.url=ckpt"};
  EXPECT_THAT(LoadSpec(kSmallest, source),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("digits.path: must be an absolute"),
                             HasSubstr("checkpoint.url: must be an absolute"))));
  source.base_dir = "/home/me";
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(kSmallest, source));
  EXPECT_EQ(spec.train().data().digits().path(), "/home/me/data/digits");
  EXPECT_EQ(spec.checkpoint().url(), "/home/me/ckpt");
}

TEST(LoadSpecTest, PathsOfTheFileAndOfTheCommandLineMayStartApart) {
  SpecSource source;
  source.base_dir = "/repo/configs";
  source.overrides_dir = "/home/me";
  source.overrides = {"checkpoint.url=ckpt"};
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, LoadSpec(R"(
name: x
train: {model: {mlp: }, data: {digits: {path: ../data}}, batch_size: 8, epochs: 1}
)",
                                                        source));
  EXPECT_EQ(spec.train().data().digits().path(), "/repo/configs/../data");
  EXPECT_EQ(spec.checkpoint().url(), "/home/me/ckpt");
}

TEST(LoadSpecTest, AResolvedSpecReadsBackAsItselfFromBothSpellings) {
  for (const char* optimizer : {"adamw", "sgd"}) {
    ASSERT_OK_AND_ASSIGN(
        const v1::JobSpec spec,
        LoadSpec(kSmallest, {.overrides = {std::string("train.optimizer.name=") + optimizer}}));
    for (const std::string& text : {SpecToJson(spec), SpecToYaml(spec)}) {
      ASSERT_OK_AND_ASSIGN(const v1::JobSpec again, LoadSpec(text));
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again, spec)) << text;
    }
    ASSERT_OK_AND_ASSIGN(const v1::JobSpec resolved, ResolveSpec(spec));
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(resolved, spec));
  }
}

TEST(ResolveSpecTest, RefusesABadMessageInFewWords) {
  EXPECT_THAT(ResolveSpec(v1::JobSpec()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name: is required")));
  v1::JobSpec many = Good();
  for (int i = 0; i < 64; ++i) many.mutable_train()->mutable_model()->mutable_mlp()->add_hidden(0);
  const auto refused = ResolveSpec(many);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("and 45 more")));
  EXPECT_LT(refused.status().message().size(), 4096u);
}

}  // namespace
}  // namespace muster
