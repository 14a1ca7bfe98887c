#include "common/spec/read/table_reader.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/spec/read/spec_reader.h"
#include "common/spec/spec_writer.h"
#include "common/spec/validate/train_paths.h"
#include "tests/common/spec/fill_spec.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

SpecNode TreeOf(const std::string& text) {
  std::vector<SpecFault> faults;
  SpecNode root = ParseSpecTree(text, faults);
  EXPECT_TRUE(faults.empty()) << text;
  return root;
}

void ExpectReadAsByReflection(const std::string& text) {
  const SpecNode root = TreeOf(text);
  ReadSpecResult expected;
  ReadSpecTree(root, expected);
  EXPECT_TRUE(expected.faults.empty()) << text;
  v1::JobSpec spec;
  std::map<std::string, int> lines;
  EXPECT_TRUE(ReadByTable(root, spec, lines)) << text;
  EXPECT_TRUE(MessageDifferencer::Equals(spec, expected.spec)) << text << spec.DebugString();
  EXPECT_EQ(lines, expected.lines) << text;
}

TEST(TableReader, EveryFieldIsReadAsByReflection) {
  for (int variant = 0; variant < 12; ++variant) {
    v1::JobSpec spec;
    int counter = 0;
    testing::FillEverything(spec, variant, counter);
    ExpectReadAsByReflection(SpecToYaml(spec));
    ExpectReadAsByReflection(SpecToJson(spec));
  }
}

TEST(TableReader, SpellingsAreReadAsByReflection) {
  for (const char* text : {
           "{}",
           "name: x\ntags: {a: b, c: 'd'}\nranks: {min: +1, max: 2}",
           "name: 'ü'\ntags:\nplacement:\ntrain:\n  model:\n    mlp:\n  data:",
           "scheduling: {priority: -7, max_run_time: 1h30m}\nrestart: {backoff: 0s}",
           "train: {optimizer: {lr: .5e-3, name: adamw}, epochs: 3, deterministic: True}",
           "train: {optimizer: {groups: [{pattern: x}, {pattern: y, lr_scale: 1}]}, steps: "
           "99999999999}",
           "command: {argv: [a, '1'], env: {A: '1', B: x}}",
       }) {
    ExpectReadAsByReflection(text);
  }
}

TEST(TableReader, WhatIsWrongIsLeftToReflection) {
  for (const char* text : {
           "nmae: x",
           "name: x\nname: y",
           "name: 12",
           "name:",
           "name: [x]",
           "ranks: 2",
           "ranks: {min: -1}",
           "ranks: {min: 4294967296}",
           "ranks: {min: '1'}",
           "scheduling: {priority: 1.5}",
           "scheduling: {max_run_time: 5}",
           "scheduling: {max_run_time: 1000000d}",
           "train: {precision: fp61}",
           "train: {precision: PRECISION_BF16}",
           "train: {deterministic: yes}",
           "train: {clip_norm: .inf}",
           "train: {model: {mlp: {hidden: []}}}",
           "train: {model: {mlp: {hidden: 3}}}",
           "train: {model: {mlp: {}, vit: {}}}",
           "train: [1]",
           "tags: [a]",
           "tags: {a: 1}",
           "tags: {a: x, a: y}",
           "command: {argv: run}",
       }) {
    const SpecNode root = TreeOf(text);
    ReadSpecResult told;
    ReadSpecTree(root, told);
    EXPECT_FALSE(told.faults.empty()) << text;
    v1::JobSpec spec;
    std::map<std::string, int> lines;
    EXPECT_FALSE(ReadByTable(root, spec, lines)) << text;
  }
}

// Sets each field `path` that a message of this kind may have, one at a time in `train`, and looks
// whether it is visited.
void ExpectPathsVisited(v1::Train& train, Message& message, const std::string& key, int& count) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const std::string at = key + "." + field->name();
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ExpectPathsVisited(train, *message.GetReflection()->MutableMessage(&message, field), at,
                         count);
      message.GetReflection()->ClearField(&message, field);
    } else if (field->name() == "path") {
      message.GetReflection()->SetString(&message, field, "x");
      std::vector<std::string> visited;
      ForEachTrainPath(train, [&](const char* where, std::string& path) {
        visited.push_back(where + ("=" + path));
        path = "y";
      });
      EXPECT_THAT(visited, ::testing::ElementsAre(at + "=x"));
      EXPECT_EQ(message.GetReflection()->GetString(message, field), "y") << at;
      message.GetReflection()->ClearField(&message, field);
      ++count;
    }
  }
}

TEST(TrainPaths, EveryPathOfTheProtocolIsVisited) {
  v1::Train train;
  int count = 0;
  ExpectPathsVisited(train, train, "train", count);
  EXPECT_GE(count, 8);
  ForEachTrainPath(train, [](const char* key, std::string&) { ADD_FAILURE() << key; });
}

}  // namespace
}  // namespace muster
