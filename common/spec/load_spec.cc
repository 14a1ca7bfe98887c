#include "common/spec/load_spec.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/spec/read/spec_reader.h"
#include "common/spec/tree/spec_fault.h"
#include "common/spec/validate/spec_defaults.h"
#include "common/spec/validate/spec_validate.h"

namespace muster {
namespace {

// gRPC refuses trailers of more than 8 KiB.
constexpr size_t kMostFaultsInTrailer = 20;

// Whether one path holds the other: `train` holds `train.optimizer` and `train.x[0]`.
bool Holds(absl::string_view outer, absl::string_view inner) {
  if (!absl::StartsWith(inner, outer)) return false;
  return inner.size() == outer.size() || outer.empty() || inner[outer.size()] == '.' ||
         inner[outer.size()] == '[';
}

// The line of a path, else of the nearest mapping around it.
int LineOf(const std::map<std::string, int>& lines, std::string path) {
  while (!path.empty()) {
    if (const auto found = lines.find(path); found != lines.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    path = cut == std::string::npos ? "" : path.substr(0, cut);
  }
  return 0;
}

void MakeAbsolute(const std::string& base_dir, std::string* path) {
  if (base_dir.empty() || path->empty() || absl::StartsWith(*path, "/") ||
      absl::StrContains(*path, "://")) {
    return;
  }
  *path = absl::StrCat(base_dir, absl::EndsWith(base_dir, "/") ? "" : "/", *path);
}

// The folder that a relative path at this key begins in.
using BaseOf = std::function<const std::string&(const std::string& key)>;

// Each string below the message that is named `path`, and a teacher, which is one too.
void MakeTrainPathsAbsolute(const BaseOf& base, const std::string& key,
                            google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    const std::string below = absl::StrCat(key, ".", field->name());
    if (field->message_type() != nullptr) {
      MakeTrainPathsAbsolute(base, below, *reflection.MutableMessage(&message, field));
    } else if (field->name() == "path" || below == "train.distill.teacher") {
      std::string path = reflection.GetString(message, field);
      MakeAbsolute(base(below), &path);
      reflection.SetString(&message, field, std::move(path));
    }
  }
}

void MakePathsAbsolute(const SpecSource& source, const std::map<std::string, int>& lines,
                       v1::JobSpec& spec) {
  const BaseOf base = [&](const std::string& path) -> const std::string& {
    const bool overridden = LineOf(lines, path) == 0;
    return overridden && !source.overrides_dir.empty() ? source.overrides_dir : source.base_dir;
  };
  if (spec.checkpoint().has_url()) {
    MakeAbsolute(base("checkpoint.url"), spec.mutable_checkpoint()->mutable_url());
  }
  if (spec.has_command() && !spec.command().has_upload()) {
    // Where the submit runs, as with sbatch.
    v1::Command& command = *spec.mutable_command();
    if (command.has_workdir() && !command.has_image()) {
      MakeAbsolute(base("command.workdir"), command.mutable_workdir());
    } else if (!source.overrides_dir.empty() && !command.has_image()) {
      command.set_workdir(source.overrides_dir);
    }
  }
  if (spec.has_train()) MakeTrainPathsAbsolute(base, "train", *spec.mutable_train());
}

// A key that could not be read must not be called missing or out of bounds as well.
bool Told(const std::vector<SpecFault>& told, const SpecFault& fault) {
  return std::any_of(told.begin(), told.end(), [&](const SpecFault& other) {
    // One of the two is required, so an unreadable one of them is fault enough.
    if (fault.path == "train.epochs" && Holds("train.steps", other.path)) return true;
    return Holds(other.path, fault.path) || (Holds(fault.path, other.path) && !other.path.empty());
  });
}

}  // namespace

absl::StatusOr<v1::JobSpec> LoadSpec(absl::string_view text, const SpecSource& source) {
  absl::StatusOr<v1::JobSpec> spec = LoadWrittenSpec(text, source);
  if (spec.ok()) FillDefaults(*spec);
  return spec;
}

absl::StatusOr<v1::JobSpec> LoadWrittenSpec(absl::string_view text, const SpecSource& source) {
  ReadSpecResult read = ReadSpec(text, source.overrides);
  MakePathsAbsolute(source, read.lines, read.spec);
  v1::JobSpec written = read.spec;
  FillDefaults(read.spec);
  std::vector<SpecFault> all = read.faults;
  for (SpecFault& fault : ValidateSpec(read.spec)) {
    if (Told(read.faults, fault)) continue;
    fault.line = LineOf(read.lines, fault.path);
    all.push_back(std::move(fault));
  }
  if (!all.empty()) return FaultStatus(source.name, std::move(all));
  return written;
}

absl::StatusOr<v1::JobSpec> ResolveSpec(v1::JobSpec spec) {
  FillDefaults(spec);
  const absl::Status status = FaultStatus("spec", ValidateSpec(spec), kMostFaultsInTrailer);
  if (!status.ok()) return status;
  return spec;
}

}  // namespace muster
