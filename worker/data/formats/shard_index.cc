#include "worker/data/formats/shard_index.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/parse/tar_members.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kTarSuffix = ".tar";
constexpr absl::string_view kVersion = "v1.2";
constexpr absl::string_view kOwnPart = "muster 1 ";
constexpr uint64_t kBlockBytes = 512;
// The field of a ustar header holds less; a larger member's size stands elsewhere.
constexpr uint64_t kMostHeaderSize = uint64_t{8} << 30;
constexpr size_t kMostHeaderName = 100;

// Labels by the offsets of the inputs, in the order of the shard.
class LabelList final : public SampleSink {
 public:
  uint32_t AddFile(const std::string&, uint64_t size_bytes) override {
    size_bytes_ = size_bytes;
    return 0;
  }
  absl::Status Add(const FoundSample& sample) override {
    labels_.emplace_back(sample.offset, sample.label);
    return absl::OkStatus();
  }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<std::pair<uint64_t, int64_t>>& labels() const { return labels_; }

 private:
  uint64_t size_bytes_ = 0;
  std::vector<std::pair<uint64_t, int64_t>> labels_;
};

struct IndexedMember {
  absl::string_view extension;
  absl::string_view name;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Lines of a text, without their ends; nothing behind the last.
class Lines {
 public:
  explicit Lines(absl::string_view text) : rest_(text) {}

  bool Next(absl::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    line = absl::StripSuffix(rest_.substr(0, end), "\r");
    rest_.remove_prefix(end == absl::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    return true;
  }
  uint64_t number() const { return number_; }  // of the last one, from 1 on

 private:
  absl::string_view rest_;
  uint64_t number_ = 0;
};

class ShardIndexReader {
 public:
  ShardIndexReader(const IndexedShard& shard, const std::string& path, absl::string_view text,
                   const WebDatasetOptions& options)
      : shard_(shard), path_(path), text_(text), options_(options), lines_(text) {}

  absl::StatusOr<std::optional<IndexReport>> Run(SampleSink& sink) {
    absl::string_view first;
    if (!lines_.Next(first) || !absl::ConsumePrefix(&first, kVersion) ||
        !absl::ConsumePrefix(&first, " ")) {
      if (absl::StartsWith(text_, "v1.")) return std::nullopt;
      return Bad("is no index of a shard, which begins with a version such as v1.2");
    }
    uint64_t samples = 0;
    // A sample takes some bytes of the text.
    if (!absl::SimpleAtoi(first, &samples) || samples > text_.size()) {
      return Bad("has no number of samples that can be");
    }
    MUSTER_RETURN_IF_ERROR(FindLabels(samples));
    std::vector<IndexedMember> members;
    for (uint64_t sample = 0; sample < samples; ++sample) {
      MUSTER_RETURN_IF_ERROR(ReadSampleLine(members));
      const int64_t label = labels_.empty() ? kNoLabel : labels_[sample];
      if (labels_.empty() && HasLabel(members)) return std::nullopt;
      MUSTER_RETURN_IF_ERROR(Take(members, label));
    }
    for (const size_t member : SomeOf(found_.size())) {
      MUSTER_RETURN_IF_ERROR(CompareWithHeader(found_[member]));
    }
    return AddAll(sink);
  }

 private:
  struct Found {
    FoundSample sample;
    absl::string_view name;  // of the input
    uint64_t line = 0;
  };

  absl::Status Bad(absl::string_view what) const { return BadAt(lines_.number(), what); }
  absl::Status BadAt(uint64_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " line ", line, ": ", what, "; it is to describe ", shard_.path,
                     ": remove it, or make it again with `muster data index --beside`"));
  }

  // Our own part: behind the samples, so it is looked for first.
  absl::Status FindLabels(uint64_t samples) {
    Lines lines = lines_;
    absl::string_view line;
    for (uint64_t i = 0; i < samples; ++i) {
      if (!lines.Next(line)) return BadAt(lines.number(), "has fewer samples than it says");
    }
    if (!lines.Next(line) || !absl::ConsumePrefix(&line, kOwnPart)) return absl::OkStatus();
    uint64_t size = 0;
    if (!absl::SimpleAtoi(line, &size)) return BadAt(lines.number(), "has no size of the shard");
    if (size != shard_.size_bytes) {
      return BadAt(lines.number(), absl::StrCat("says that the shard has ", size,
                                                " bytes, and it has ", shard_.size_bytes));
    }
    labels_.reserve(samples);
    for (uint64_t i = 0; i < samples; ++i) {
      int64_t label = 0;
      if (!lines.Next(line) || !absl::SimpleAtoi(line, &label) || label < kNoLabel) {
        return BadAt(lines.number(), "has no label for each sample");
      }
      labels_.push_back(label);
    }
    return absl::OkStatus();
  }

  absl::Status ReadSampleLine(std::vector<IndexedMember>& members) {
    absl::string_view line;
    if (!lines_.Next(line)) return Bad("has fewer samples than it says");
    members.clear();
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words.size() % 4 != 0) {
      return Bad("wants an extension, an offset, a size and a name for each member");
    }
    for (size_t at = 0; at < words.size(); at += 4) {
      IndexedMember member{words[at], words[at + 3], 0, 0};
      if (!absl::SimpleAtoi(words[at + 1], &member.offset) ||
          !absl::SimpleAtoi(words[at + 2], &member.size)) {
        return Bad(absl::StrCat("has no offset and size for the member ", member.name));
      }
      const bool lies_inside = member.offset >= kBlockBytes && member.offset % kBlockBytes == 0 &&
                               member.offset <= shard_.size_bytes &&
                               member.size <= shard_.size_bytes - member.offset;
      if (!lies_inside) {
        return Bad(absl::StrCat("has the member ", member.name, " at ", member.offset, " with ",
                                member.size, " bytes, and the shard has ", shard_.size_bytes));
      }
      const SampleName name = NameOf(member.name);
      if (name.key.empty() || name.extension != member.extension ||
          name.key != NameOf(words[3]).key) {
        return Bad(absl::StrCat("has the member ", member.name, " with the extension ",
                                member.extension, " for the sample ", NameOf(words[3]).key));
      }
      members.push_back(member);
    }
    return absl::OkStatus();
  }

  bool HasLabel(const std::vector<IndexedMember>& members) const {
    return std::any_of(members.begin(), members.end(), [this](const IndexedMember& member) {
      return absl::EqualsIgnoreCase(member.extension, options_.label_extension) ||
             absl::EqualsIgnoreCase(member.extension, "json");
    });
  }

  absl::Status Take(const std::vector<IndexedMember>& members, int64_t label) {
    const IndexedMember* input = nullptr;
    for (const IndexedMember& member : members) {
      if (!IsExtensionOf(member.extension, options_.extensions)) continue;
      if (input != nullptr) {
        return Bad(absl::StrCat("has a second input, ", member.name, ", for one sample"));
      }
      input = &member;
    }
    const absl::string_view key = NameOf(members.front().name).key;
    if (input == nullptr) {
      report_.LeaveOut(absl::StrCat(shard_.path, ": sample ", key,
                                    " has no member that is an input by its extension"));
      return absl::OkStatus();
    }
    FoundSample sample;
    sample.key = key;
    sample.offset = input->offset;
    sample.size = input->size;
    sample.label = label;
    found_.push_back({sample, input->name, lines_.number()});
    return absl::OkStatus();
  }

  // The first, the last and one between.
  static std::set<size_t> SomeOf(size_t count) {
    if (count == 0) return {};
    return {0, count / 2, count - 1};
  }

  absl::Status CompareWithHeader(const Found& found) const {
    std::string header(kBlockBytes, '\0');
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got, shard_.read(found.sample.offset - kBlockBytes,
                                                            header.data(), header.size()));
    header.resize(std::min<uint64_t>(got, header.size()));
    const std::optional<LoneTarHeader> there = ParseLoneTarHeader(header);
    if (!there.has_value()) {
      return BadAt(found.line, absl::StrCat("has the member ", found.name, " at ",
                                            found.sample.offset, ", where none is"));
    }
    const bool is_named = there->name == found.name || found.name.size() > kMostHeaderName;
    const bool is_sized = there->size == found.sample.size || found.sample.size >= kMostHeaderSize;
    if (is_named && is_sized) return absl::OkStatus();
    return BadAt(found.line,
                 absl::StrCat("has the member ", found.name, " with ", found.sample.size,
                              " bytes at ", found.sample.offset, ", where ", there->name, " with ",
                              there->size, " bytes is"));
  }

  absl::StatusOr<std::optional<IndexReport>> AddAll(SampleSink& sink) {
    const uint32_t file = sink.AddFile(shard_.path, shard_.size_bytes);
    for (Found& found : found_) {
      found.sample.file = file;
      MUSTER_RETURN_IF_ERROR(sink.Add(found.sample));
      ++report_.samples;
    }
    return std::move(report_);
  }

  const IndexedShard& shard_;
  const std::string& path_;
  const absl::string_view text_;
  const WebDatasetOptions& options_;
  Lines lines_;
  std::vector<int64_t> labels_;  // empty: the index does not say
  std::vector<Found> found_;
  IndexReport report_;
};

}  // namespace

std::optional<std::string> ShardIndexPath(const std::string& shard) {
  absl::string_view stem = shard;
  if (!absl::ConsumeSuffix(&stem, kTarSuffix)) return std::nullopt;
  return absl::StrCat(stem, ".idx");
}

absl::StatusOr<std::string> MakeShardIndex(FileSystem& fs, const std::string& shard,
                                           const WebDatasetOptions& options) {
  LabelList inputs;
  MUSTER_RETURN_IF_ERROR(IndexWebDataset(fs, shard, options, inputs).status());
  MUSTER_ASSIGN_OR_RETURN(TarMembers tar, TarMembers::Open(fs, shard, options.window));
  std::string samples, labels, last_key;
  uint64_t count = 0;
  size_t next_input = 0;
  const auto end_sample = [&](int64_t label) { absl::StrAppend(&labels, label, "\n"); };
  int64_t label = kNoLabel;
  TarMember member;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, tar.Next(member));
    if (!more) break;
    const SampleName name = NameOf(member.name);
    if (member.kind != TarMember::Kind::kFile || name.key.empty() || name.extension.empty())
      continue;
    if (std::any_of(member.name.begin(), member.name.end(), absl::ascii_isspace)) {
      return absl::FailedPreconditionError(
          absl::StrCat(shard, ": the member '", member.name,
                       "' has white space in its name, which an index beside cannot hold"));
    }
    const bool is_new = count == 0 || name.key != last_key;
    if (is_new && count > 0) end_sample(label);
    if (is_new) {
      label = kNoLabel;
      last_key = std::string(name.key);
      ++count;
    }
    absl::StrAppend(&samples, is_new ? (count > 1 ? "\n" : "") : " ", name.extension, " ",
                    member.offset, " ", member.size, " ", member.name);
    if (next_input < inputs.labels().size() && inputs.labels()[next_input].first == member.offset)
      label = inputs.labels()[next_input++].second;
  }
  if (count > 0) end_sample(label);
  return absl::StrCat(kVersion, " ", count, "\n", samples, count > 0 ? "\n" : "", kOwnPart,
                      inputs.size_bytes(), "\n", labels);
}

absl::StatusOr<std::optional<IndexReport>> IndexByShardIndex(const IndexedShard& shard,
                                                             const std::string& index_path,
                                                             absl::string_view index,
                                                             const WebDatasetOptions& options,
                                                             SampleSink& sink) {
  return ShardIndexReader(shard, index_path, index, options).Run(sink);
}

}  // namespace muster::worker
