#include "worker/data/formats/web_dataset.h"

#include <xxhash.h>

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data/formats/parse/tar_members.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMostLabelBytes = 64;
constexpr uint64_t kMostNamesBytes = 64u << 20;
constexpr uint64_t kMostJsonBytes = FileCursor::kMostReadBytes;

// Members that belong together, until one of another key comes.
struct Group {
  std::string key;
  bool has_input = false;
  bool has_label = false;
  uint64_t offset = 0;
  uint64_t size = 0;
  int64_t label = kNoLabel;
};

class Shard {
 public:
  Shard(TarMembers& tar, const WebDatasetOptions& options, SampleSink& sink)
      : tar_(tar), options_(options), sink_(sink) {}

  absl::StatusOr<IndexReport> Run() {
    file_ = sink_.AddFile(tar_.file().path(), tar_.file().size());
    TarMember member;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, tar_.Next(member));
      if (!more) break;
      if (member.kind == TarMember::Kind::kFile) {
        MUSTER_RETURN_IF_ERROR(Take(member));
      } else if (member.kind == TarMember::Kind::kLink) {
        report_.LeaveOut(absl::StrCat(tar_.file().path(), ": ", member.name,
                                      " is a link: write the archive with --hard-dereference"));
      }
    }
    MUSTER_RETURN_IF_ERROR(EndGroup());
    return report_;
  }

 private:
  absl::Status Take(const TarMember& member) {
    const SampleName name = NameOf(member.name);
    if (name.key.empty() || name.extension.empty()) return absl::OkStatus();
    if (!in_group_ || name.key != group_.key) {
      MUSTER_RETURN_IF_ERROR(EndGroup());
      MUSTER_RETURN_IF_ERROR(StartGroup(member, name.key));
    }
    if (IsExtensionOf(name.extension, options_.extensions)) return TakeInput(member);
    if (absl::EqualsIgnoreCase(name.extension, options_.label_extension)) {
      return TakeLabel(member);
    }
    if (absl::EqualsIgnoreCase(name.extension, "json")) return TakeJson(member);
    return absl::OkStatus();
  }

  // 16 bytes of a key's hash instead of the key: a shard may have a million.
  absl::Status StartGroup(const TarMember& member, absl::string_view key) {
    const XXH128_hash_t hash = ::XXH3_128bits(key.data(), key.size());
    if (!seen_.insert({hash.high64, hash.low64}).second) {
      return Bad(member, absl::StrCat("key ", key,
                                      " comes again after other samples: write the members of a "
                                      "sample beside each other, and no sample twice"));
    }
    group_ = Group{std::string(key)};
    in_group_ = true;
    return absl::OkStatus();
  }

  absl::Status EndGroup() {
    if (!in_group_) return absl::OkStatus();
    in_group_ = false;
    if (!group_.has_input) {
      report_.LeaveOut(absl::StrCat(tar_.file().path(), ": sample ", group_.key,
                                    " has no member that is an input by its extension"));
      return absl::OkStatus();
    }
    FoundSample sample;
    sample.key = group_.key;
    sample.file = file_;
    sample.offset = group_.offset;
    sample.size = group_.size;
    sample.label = group_.label;
    ++report_.samples;
    return sink_.Add(sample);
  }

  absl::Status TakeInput(const TarMember& member) {
    if (group_.has_input) {
      return Bad(member, absl::StrCat("sample ", group_.key, " has a second input, ", member.name,
                                      ": say which extension is the input"));
    }
    group_.has_input = true;
    group_.offset = member.offset;
    group_.size = member.size;
    return absl::OkStatus();
  }

  absl::Status TakeLabel(const TarMember& member) {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view text, tar_.Contents(member, kMostLabelBytes));
    int64_t label = 0;
    if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &label)) {
      return Bad(member, absl::StrCat(member.name, " holds no integer"));
    }
    return SetLabel(member, label);
  }

  absl::Status TakeJson(const TarMember& member) {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view text, tar_.Contents(member, kMostJsonBytes));
    const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                                                      /*allow_exceptions=*/false);
    if (json.is_discarded()) return Bad(member, absl::StrCat(member.name, " is no JSON"));
    if (!json.is_object()) return absl::OkStatus();
    const auto field = json.find(options_.label_field);
    if (field == json.end()) return absl::OkStatus();
    const bool fits = field->is_number_integer() &&
                      (!field->is_number_unsigned() || field->get<uint64_t>() <= INT64_MAX);
    if (!fits) {
      return Bad(member,
                 absl::StrCat(member.name, ": ", options_.label_field, " is no whole number"));
    }
    return SetLabel(member, field->get<int64_t>());
  }

  absl::Status SetLabel(const TarMember& member, int64_t label) {
    if (label < kNoLabel) return Bad(member, absl::StrCat(member.name, ": label ", label));
    if (group_.has_label && group_.label != label) {
      return Bad(member, absl::StrCat("sample ", group_.key, " has two labels, ", group_.label,
                                      " and ", label));
    }
    group_.has_label = true;
    group_.label = label;
    return absl::OkStatus();
  }

  absl::Status Bad(const TarMember& member, absl::string_view what) const {
    return tar_.file().Bad(member.header_offset, what);
  }

  TarMembers& tar_;
  const WebDatasetOptions& options_;
  SampleSink& sink_;
  uint32_t file_ = 0;
  IndexReport report_;
  bool in_group_ = false;
  Group group_;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> seen_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadClassNames(FileSystem& fs, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kClassNamesFile);
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, ExistsIfAllowed(fs, path));
  if (!is_there) return std::vector<std::string>{};
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path, kMostNamesBytes));
  std::vector<std::string> names = absl::StrSplit(text, '\n');
  if (!names.empty() && names.back().empty()) names.pop_back();
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = std::string(absl::StripSuffix(names[i], "\r"));
    if (names[i].empty())
      return absl::InvalidArgumentError(absl::StrCat(path, ": line ", i + 1, " names no class"));
  }
  return names;
}

absl::StatusOr<IndexReport> IndexWebDataset(FileSystem& fs, const std::string& path,
                                            const WebDatasetOptions& options, SampleSink& sink) {
  MUSTER_ASSIGN_OR_RETURN(TarMembers tar, TarMembers::Open(fs, path, options.window));
  return Shard(tar, options, sink).Run();
}

}  // namespace muster::worker
