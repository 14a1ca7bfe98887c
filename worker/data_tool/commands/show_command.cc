// `muster-data show`: where a sample lies and what it is; or what a step of a job made of it.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data/images/pixels.h"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/commands/tool_commands.h"
#include "worker/data_tool/show/png_file.h"
#include "worker/data_tool/show/recreate_sample.h"
#include "worker/trainer/data/data_recipe.h"

namespace muster::worker {
namespace {

// Of a run: steps times a batch stays far below 2^63.
constexpr uint64_t kMostSteps = 1'000'000'000'000;

struct ShowFlags {
  std::string path, sample, split = "train";
  std::string job, out;
  std::optional<uint64_t> step, place;
};

using Facts = std::vector<std::pair<std::string, std::string>>;

void Print(const nlohmann::json& json, const Facts& facts, DataTool& tool) {
  if (tool.json) {
    tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    tool.out << RenderFacts(facts);
  }
}

std::string HeaderText(const PictureHeader& header) {
  return absl::StrCat(
      NameOf(header.kind), ", ", header.width, " x ", header.height, ", ", header.channels,
      header.channels == 1 ? " channel" : " channels", header.progressive ? ", progressive" : "",
      header.orientation == 1 ? "" : absl::StrCat(", EXIF orientation ", header.orientation));
}

nlohmann::json HeaderJson(const PictureHeader& header) {
  return {{"kind", NameOf(header.kind)},       {"width", header.width},
          {"height", header.height},           {"channels", header.channels},
          {"progressive", header.progressive}, {"orientation", header.orientation}};
}

Facts PlaceFacts(const SampleIndex& index, const StoredPlace& place) {
  return {{"key", Printable(place.key)},
          {"number", absl::StrCat(place.id)},
          {"class", Printable(ClassText(index, place.label))},
          {"file", Printable(place.file)},
          {"offset", absl::StrCat(place.offset)},
          {"bytes", absl::StrCat(place.size)}};
}

nlohmann::json PlaceJson(const StoredPlace& place) {
  return {{"key", place.key},   {"number", place.id},     {"class", place.label},
          {"file", place.file}, {"offset", place.offset}, {"bytes", place.size}};
}

absl::StatusOr<int> ShowStored(const ShowFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path));
  MUSTER_ASSIGN_OR_RETURN(const Split split, SplitOfName(flags.split));
  const SampleIndex& index = IndexOf(indexes, split);
  MUSTER_ASSIGN_OR_RETURN(const uint64_t id, FindSample(index, flags.sample));
  MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index, id));
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(ReadStored(tool.data, place, bytes));
  const absl::StatusOr<PictureHeader> header = ReadPictureHeader(bytes);
  Facts facts = PlaceFacts(index, place);
  nlohmann::json json = PlaceJson(place);
  if (header.ok()) {
    facts.emplace_back("picture", HeaderText(*header));
    json["picture"] = HeaderJson(*header);
  } else {
    facts.emplace_back("picture", std::string(header.status().message()));
    json["picture"] = nullptr;
    json["fault"] = std::string(header.status().message());
  }
  Print(json, facts, tool);
  return header.ok() ? kSound : kFaulty;
}

std::string CropText(const CropBox& crop) {
  return absl::StrCat("left ", crop.x, " top ", crop.y, " width ", crop.width, " height ",
                      crop.height);
}

std::vector<std::string> ChangesOf(const PicturePlan& plan) {
  std::vector<std::string> changes;
  if (plan.flip) changes.push_back(PictureOpName(PictureOp::kFlipHorizontally));
  for (const PictureChange& change : plan.changes) changes.push_back(Describe(change));
  return changes;
}

void AddMade(const SampleIndex& index, const MadeSample& made, absl::string_view prefix,
             Facts& facts, nlohmann::json& json) {
  for (auto& [name, value] : PlaceFacts(index, made.stored))
    facts.emplace_back(absl::StrCat(prefix, name), std::move(value));
  const auto add = [&](absl::string_view name, std::string value) {
    facts.emplace_back(absl::StrCat(prefix, name), std::move(value));
  };
  add("stands at", absl::StrCat("epoch ", made.stands.epoch, ", position ", made.stands.position));
  for (const std::string& fault : made.stands_in_for) add("stands in for", Printable(fault));
  add("picture", HeaderText(made.plan.header));
  add("crop", CropText(made.plan.crop));
  const std::vector<std::string> changes = ChangesOf(made.plan);
  add("changes", changes.empty() ? "none" : absl::StrJoin(changes, ", "));
  json = PlaceJson(made.stored);
  json["place"] = made.place;
  json["epoch"] = made.stands.epoch;
  json["position"] = made.stands.position;
  json["stands_in_for"] = made.stands_in_for;
  json["picture"] = HeaderJson(made.plan.header);
  json["crop"] = {{"x", made.plan.crop.x},
                  {"y", made.plan.crop.y},
                  {"width", made.plan.crop.width},
                  {"height", made.plan.crop.height}};
  json["changes"] = changes;
}

void AddMix(const PairMix& mix, Facts& facts, nlohmann::json& json) {
  std::string text = mix.pastes ? "cutmix" : "mixup";
  absl::StrAppendFormat(&text, ", own share %.6f", mix.share);
  json["mix"] = {{"kind", mix.pastes ? "cutmix" : "mixup"}, {"share", mix.share}};
  if (mix.pastes) {
    const Window& window = mix.window;
    absl::StrAppend(&text, ", pasted top ", window.top, " left ", window.left, " height ",
                    window.height, " width ", window.width);
    json["mix"]["window"] = {{"top", window.top},
                             {"left", window.left},
                             {"height", window.height},
                             {"width", window.width}};
  }
  facts.emplace_back("mixed by", text);
}

absl::Status WritePng(const SampleRecreation& recreation, std::vector<float> inputs,
                      const std::string& out, DataTool& tool) {
  const Picture picture{inputs.data(), recreation.channels(), recreation.size(), recreation.size()};
  InputsToPixels(recreation.pixels(), picture);
  MUSTER_ASSIGN_OR_RETURN(const std::string png, EncodeAsPng(picture));
  return WriteFileAtomically(tool.local, out, png);
}

absl::StatusOr<int> ShowOfJob(const ShowFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSpec(flags.job, tool));
  MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(text));
  std::vector<DataIndexes> indexes;  // of each source
  std::vector<const SampleIndex*> train;
  for (const trainer_spec::Data& source : SourcesOf(spec.train.data)) {
    if (!source.images.has_value()) {
      return absl::UnimplementedError(
          "the job's data are not train.data.images: only samples that lie in files can be shown");
    }
    MUSTER_ASSIGN_OR_RETURN(DataIndexes opened, OpenIndexes(tool, source.images->path));
    indexes.push_back(std::move(opened));
  }
  for (const DataIndexes& of_source : indexes) train.push_back(&IndexOf(of_source, Split::kTrain));
  MUSTER_ASSIGN_OR_RETURN(const auto recreation,
                          SampleRecreation::Create(tool.data, train, spec.train));
  MUSTER_ASSIGN_OR_RETURN(const RecreatedSample sample,
                          recreation->Recreate(*flags.step, *flags.place));
  Facts facts;
  nlohmann::json json;
  AddMade(*train[sample.own.source], sample.own, "", facts, json);
  if (sample.partner.has_value()) {
    AddMix(sample.mix, facts, json);
    AddMade(*train[sample.partner->source], *sample.partner, "partner's ", facts, json["partner"]);
  }
  if (!flags.out.empty()) {
    MUSTER_RETURN_IF_ERROR(WritePng(*recreation, sample.inputs, flags.out, tool));
    facts.emplace_back("written to", flags.out);
    json["out"] = flags.out;
  }
  Print(json, facts, tool);
  return kSound;
}

}  // namespace

void AddShow(CLI::App& app, DataTool& tool) {
  CLI::App* command = app.add_subcommand(
      "show", "where a sample lies and what it is; or what a step of a job made of it");
  const auto flags = std::make_shared<ShowFlags>();
  auto* path = command->add_option("PATH", flags->path, "a folder, a file or a pattern");
  auto* key = command->add_option("KEY", flags->sample, "of the sample; or its number");
  AddSplitName(*command, flags->split);
  auto* job = command->add_option("--job", flags->job,
                                  "a resolved spec (JSON) instead of a path; - for standard input");
  auto* step = command->add_option("--step", flags->step, "of the job, from 0")
                   ->check(CLI::Range(uint64_t{0}, kMostSteps));
  auto* place = command->add_option("--sample", flags->place, "place in the step's global batch");
  auto* out = command->add_option("--out", flags->out, "write the picture there, as a PNG");
  job->excludes(path)->needs(step)->needs(place);
  for (CLI::Option* option : {step, place, out}) option->needs(job);
  command->callback([&tool, flags, path, key] {
    if (!flags->job.empty()) {
      tool.run = [&tool, flags] { return ShowOfJob(*flags, tool); };
      return;
    }
    if (path->count() == 0 || key->count() == 0)
      throw CLI::RequiredError("PATH and KEY, or --job with --step and --sample,");
    tool.run = [&tool, flags] { return ShowStored(*flags, tool); };
  });
}

}  // namespace muster::worker
