#include "common/spec/read/spec_reader.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "common/spec/spec_writer.h"
#include "common/spec/tree/spec_tree.h"
#include "tests/common/spec/fill_spec.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Faults(const std::string& text,
                                const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> faults;
  for (const SpecFault& fault : ReadSpec(text, overrides).faults)
    faults.push_back(FaultText(fault));
  return faults;
}

TEST(SpecReaderTest, EveryFieldReadsBackFromJsonAndYaml) {
  for (int variant = 0; variant < 6; ++variant) {
    v1::JobSpec spec;
    int counter = 0;
    testing::FillEverything(spec, variant, counter);
    for (const std::string& text : {SpecToJson(spec), SpecToYaml(spec)}) {
      const ReadSpecResult read = ReadSpec(text);
      EXPECT_THAT(Faults(text), IsEmpty()) << text;
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(read.spec, spec))
          << text << "\n"
          << read.spec.DebugString();
    }
  }
}

TEST(SpecReaderTest, ReportsAllFaultsWithPathAndLine) {
  EXPECT_THAT(
      Faults(R"(name: x
nmae: y
train:
  batch_size: "12"
  optimizer:
    lrr: 0.1
    name: adan
  precision: fp61
  model:
    mlp: {hidden: [1, two]}
    resnet18:
  seed: -1
restart: {backoff: 5}
tags: {a: 1}
)"),
      UnorderedElementsAre(
          "line 2: nmae: unknown key; did you mean `name`?",
          "line 4: train.batch_size: must be a whole number from 0 to 4294967295; got the string "
          "\"12\"",
          "line 6: train.optimizer.lrr: unknown key; did you mean `lr`?",
          "line 7: train.optimizer.name: must be one of sgd, adamw, adam, lars, lamb, lion; got "
          "adan; did you mean `adam`?",
          "line 8: train.precision: must be one of fp32, bf16, tf32, fp16; got fp61; did you mean "
          "`fp16`?",
          "line 10: train.model.mlp.hidden[1]: must be a whole number from 0 to 4294967295; got "
          "two",
          "line 11: train.model: only one of mlp, resnet18 may be given",
          "line 12: train.seed: must be a whole number from 0 to 18446744073709551615; got -1",
          "line 13: restart.backoff: must be a duration such as 90s, 5m, 1h30m or 2d; got 5",
          "line 14: tags.a: must be a string: put it in quotes; got 1"));
}

TEST(SpecReaderTest, WrongTypesAreRefusedAndNeverConverted) {
  const struct {
    const char* text;
    const char* fault;
  } kCases[] = {
      {"name: 12", "name: must be a string: put it in quotes"},
      {"name: true", "name: must be a string: put it in quotes"},
      {"name:", "name: has no value"},
      {"name: [a]", "name: must be a single value, not a list"},
      {"name: {a: b}", "name: must be a single value, not a mapping"},
      {"train: {batch_size: 1.5}", "train.batch_size: must be a whole number"},
      {"train: {batch_size: 1e3}", "train.batch_size: must be a whole number"},
      {"train: {batch_size: 0x10}", "train.batch_size: must be a whole number"},
      {"train: {batch_size: 4294967296}", "train.batch_size: must be a whole number"},
      {"train: {clip_norm: abc}", "train.clip_norm: must be a finite number; got abc"},
      {"train: {clip_norm: .inf}", "train.clip_norm: must be a finite number"},
      {"train: {clip_norm: .nan}", "train.clip_norm: must be a finite number"},
      {"train: {clip_norm: 1e999}", "train.clip_norm: must be a finite number"},
      {"train: {clip_norm: \"1\"}",
       "train.clip_norm: must be a finite number; got the string \"1\""},
      {"train: {clip_norm: .}", "train.clip_norm: must be a finite number"},
      {"train: {clip_norm: 1e}", "train.clip_norm: must be a finite number"},
      {"train: {deterministic: yes}", "train.deterministic: must be true or false; got yes"},
      {"train: {deterministic: \"true\"}", "train.deterministic: must be true or false"},
      {"train: {deterministic: 1}", "train.deterministic: must be true or false"},
      {"train: 3", "train: must be a mapping with the keys model, data, batch_size"},
      {"train: {model: {mlp: {hidden: 3}}}", "train.model.mlp.hidden: must be a list"},
      {"train: {model: {mlp: {hidden: []}}}", "train.model.mlp.hidden: must not be empty"},
      {"train: {model: {mlp: {hidden: [[1]]}}}",
       "train.model.mlp.hidden[0]: must be a single value"},
      {"train: {optimizer: {groups: {pattern: a}}}",
       "train.optimizer.groups: must be a list of mappings"},
      {"train: {optimizer: {groups: []}}", "train.optimizer.groups: must not be empty"},
      {"train: {optimizer: {groups: [{pattern: a}, {patern: b}]}}",
       "train.optimizer.groups[1].patern: unknown key; did you mean `pattern`?"},
      {"train: {optimizer: {groups: [fc]}}", "train.optimizer.groups[0]: must be a mapping"},
      {"train: {model: resnet18}", "train.model: must be a mapping with the keys mlp, resnet18"},
      {"tags: [a]", "tags: must be a mapping of names to strings"},
      {"tags: {a: [b]}", "tags.a: must be a string"},
      {"ranks: two", "ranks: must be a whole number, or a mapping with min and max; got two"},
      {"ranks: -2", "ranks: must be a whole number, or a mapping"},
      {"ranks: [2]", "ranks: must be a mapping with the keys min, max"},
      {"restart: {backoff: soon}", "restart.backoff: must be a duration"},
      {"restart: {backoff: [1s]}", "restart.backoff: must be a single value"},
      {"restart: {backoff: 1000000d}", "restart.backoff: must be at most 100 years"},
      {"restart: {backoff: 0.1ms}", "restart.backoff: must be in whole milliseconds"},
      {"- a", "must be a mapping with the keys name, project"},
      {"just text", "must be a mapping with the keys name, project"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Faults(c.text), ElementsAre(HasSubstr(c.fault))) << c.text;
  }
}

TEST(SpecReaderTest, UnknownKeysGetTheNearestNameOrTheirPlaceOrTheList) {
  EXPECT_THAT(Faults("train: {optimizer: {momentun: 1}}"), ElementsAre(HasSubstr("`momentum`?")));
  EXPECT_THAT(Faults("train: {bacth_size: 1}"), ElementsAre(HasSubstr("`batch_size`?")));
  EXPECT_THAT(Faults("lr: 1"), ElementsAre(HasSubstr("did you mean `train.optimizer.lr`?")));
  EXPECT_THAT(Faults("every_steps: 1"), ElementsAre(HasSubstr("`checkpoint.every_steps`")));
  EXPECT_THAT(Faults("ranks: {foobarbaz: 1}"), ElementsAre(HasSubstr("known here: min, max")));
  EXPECT_THAT(Faults(std::string(5000, 'x') + ": 1").front().size(), ::testing::Lt(300u));
}

TEST(SpecReaderTest, RepeatedKeysAreRefusedInYamlAndJson) {
  EXPECT_THAT(Faults("name: a\nranks: 2\nname: b\n"),
              ElementsAre("line 3: name: is given twice; the first time on line 1"));
  EXPECT_THAT(Faults("tags:\n  a: b\n  a: c\n"),
              ElementsAre(HasSubstr("line 3: tags.a: is given twice")));
  EXPECT_THAT(Faults("{\n\"ranks\": 3,\n\t\"name\": \"a\",\n\"name\": \"b\"\n}"),
              ElementsAre("line 4: name: is given twice; the first time on line 3"));
}

TEST(SpecReaderTest, NumbersMayBeSpelledInEveryUsualWay) {
  const v1::JobSpec spec = ReadSpec(R"(
train:
  epochs: 3
  clip_norm: .5
  optimizer: {lr: 1e-3, eps: +1E-8, weight_decay: 5., beta1: 0.9}
  seed: 18446744073709551615
  steps: +7
)")
                               .spec;
  EXPECT_EQ(spec.train().epochs(), 3.0);
  EXPECT_EQ(spec.train().clip_norm(), 0.5);
  EXPECT_EQ(spec.train().optimizer().lr(), 1e-3);
  EXPECT_EQ(spec.train().optimizer().eps(), 1e-8);
  EXPECT_EQ(spec.train().optimizer().weight_decay(), 5.0);
  EXPECT_EQ(spec.train().seed(), ~0ull);
  EXPECT_EQ(spec.train().steps(), 7u);
}

TEST(SpecReaderTest, RanksAsANumberIsBothMinAndMax) {
  const v1::JobSpec spec = ReadSpec("ranks: 2").spec;
  EXPECT_EQ(spec.ranks().min(), 2u);
  EXPECT_EQ(spec.ranks().max(), 2u);
}

TEST(SpecReaderTest, AKeyWithNothingBehindItIsAnEmptyMapping) {
  const ReadSpecResult read = ReadSpec("train:\n  model:\n    resnet18:\n");
  EXPECT_THAT(read.faults, IsEmpty());
  EXPECT_TRUE(read.spec.train().model().has_resnet18());
}

TEST(SpecReaderTest, OverridesLieOverTheTextInTheirOrder) {
  const ReadSpecResult read = ReadSpec(
      "name: a\nranks: 2\ntrain: {epochs: 3, model: {mlp: {}}}\n",
      {"train.optimizer.lr=0.5", "train.optimizer.lr=0.25", "ranks.max=4", "train.epochs=null",
       "train.steps=10", "train.model.mlp.hidden=[8, 9]", "tags={a.b: c}", "name=b"});
  EXPECT_THAT(read.faults, IsEmpty());
  EXPECT_EQ(read.spec.name(), "b");
  EXPECT_EQ(read.spec.train().optimizer().lr(), 0.25);
  EXPECT_EQ(read.spec.ranks().min(), 2u);
  EXPECT_EQ(read.spec.ranks().max(), 4u);
  EXPECT_FALSE(read.spec.train().has_epochs());
  EXPECT_EQ(read.spec.train().steps(), 10u);
  EXPECT_THAT(read.spec.train().model().mlp().hidden(), ElementsAre(8u, 9u));
  EXPECT_EQ(read.spec.tags().at("a.b"), "c");
  EXPECT_EQ(ReadSpec("", {"ranks=3"}).spec.ranks().min(), 3u);
}

TEST(SpecReaderTest, OverridesHaveTheSameFaults) {
  EXPECT_THAT(Faults("name: a", {"train.optimizer.lrr=1"}),
              ElementsAre("train.optimizer.lrr: unknown key; did you mean `lr`?"));
  EXPECT_THAT(Faults("name: a", {"train.batch_size=\"12\""}),
              ElementsAre(HasSubstr("whole number")));
  EXPECT_THAT(Faults("name: a", {"name.x=1"}),
              ElementsAre("name.x: cannot be set: name is a single value or a list"));
  for (const char* bad : {"name", "=1", "a..b=1", "", ".=1"}) {
    EXPECT_THAT(Faults("name: a", {bad}), ElementsAre(HasSubstr("as path=value"))) << bad;
  }
  EXPECT_THAT(Faults("name: a", {"name=[1"}),
              ElementsAre(HasSubstr("name: the value given by --set: a key must be plain text")));
  EXPECT_THAT(Faults("name: a", std::vector<std::string>(1000, "name=b")),
              ElementsAre("more than 256 --set values"));
}

TEST(SpecReaderTest, DocumentsThatCannotBeReadGiveOneFaultWithItsLine) {
  const struct {
    std::string text;
    const char* fault;
  } kCases[] = {
      {"name: a\ntrain: [1\nx: }", "is not valid YAML"},
      {"a: b\n c: d", "line 2: is not valid YAML"},
      {"name: a\n---\nname: b\n", "more than one document"},
      {"a: &x 1\ntrain:\n  <<: *x\n", "line 3: merge keys (<<) are not read"},
      {"name: !secret a", "line 1: tags are not read: !secret"},
      {"train: !map {}", "tags are not read"},
      {"? [a]\n: b", "line 1: a key must be plain text"},
      {"a: &x [*x]", "an alias stands inside its own anchor"},
      {"name: \xff", "line 1: holds a byte that is not text in UTF-8"},
      {"name: a\nx: \xed\xa0\x80", "line 2: holds a byte that is not text"},
      {std::string("name: a\0", 8), "holds a byte that is not text"},
      {std::string(65 * 1024, '#'), "at most 65536 are read"},
      {std::string(40, '[') + std::string(40, ']'), "nested deeper than 32"},
      {"{\"train\": " + std::string(40, '[') + std::string(40, ']') + "}", "nested deeper than 32"},
      {"a: [" + std::string(30000, ',') + "]", "has more than 10000 values"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Faults(c.text), ElementsAre(HasSubstr(c.fault))) << c.text.substr(0, 80);
  }
}

TEST(SpecReaderTest, AliasesAreReadAndTheirExpansionIsBounded) {
  const v1::JobSpec spec = ReadSpec("name: &n same\nproject: *n\n").spec;
  EXPECT_EQ(spec.project(), "same");
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'h'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i)
      bomb += std::string(i == 0 ? "*" : ", *") + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(Faults(bomb), ElementsAre(HasSubstr("has more than 10000 values")));
}

TEST(SpecReaderTest, JsonMayHaveTabsAndEscapesAndFlowYamlIsStillYaml) {
  EXPECT_EQ(ReadSpec("\n{\n\t\"name\": \"a\\/\\u00e4\"\n}\n").spec.name(), "a/\xc3\xa4");
  EXPECT_EQ(ReadSpec("{name: a, ranks: 2}").spec.ranks().min(), 2u);
  EXPECT_THAT(Faults("{\"name\": 1,\n\"train\": {\n\"seed\": 1.5\n}}"),
              ElementsAre(HasSubstr("line 1: name"), HasSubstr("line 3: train.seed")));
}

TEST(SpecReaderTest, NoTextCrashesTheReader) {
  // Every prefix of a document, and the document with each byte changed.
  const std::string text =
      "name: &a \"x\"\ntrain: {model: {mlp: {hidden: [1, 2]}}, seed: *a}\ntags:\n  - ? |\n";
  for (size_t i = 0; i < text.size(); ++i) {
    (void)ReadSpec(text.substr(0, i));
    for (const char c : std::string("{[\":-&*!%@?\n\t\0\xff", 15)) {
      std::string changed = text;
      changed[i] = c;
      (void)ReadSpec(changed);
    }
  }
}

}  // namespace
}  // namespace muster
