#include "worker/data/formats/find_format.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/path_text.h"
#include "worker/data/formats/file_pattern.h"
#include "worker/data/formats/parse/dataset_card.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr char kLmdbFile[] = "data.mdb";
constexpr uint64_t kSniffedBytes = 264;
// As the Hugging Face Hub and its cache on a machine lay data sets out.
constexpr char kDatasetCard[] = "README.md";
constexpr char kDataFolder[] = "data";
constexpr char kSnapshots[] = "snapshots";
constexpr uint64_t kMostRefBytes = 1024;

enum class SplitWord { kTrain, kValidation, kTest };

std::optional<SplitWord> SplitOfWord(absl::string_view word) {
  if (word == "train") return SplitWord::kTrain;
  if (word == "validation" || word == "val" || word == "valid") return SplitWord::kValidation;
  if (word == "test") return SplitWord::kTest;
  return std::nullopt;
}

absl::string_view BaseNameOf(absl::string_view path) {
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  return path.substr(path.rfind('/') + 1);
}

// The first word of the name that is a split's.
std::optional<SplitWord> SplitInName(absl::string_view name) {
  while (!name.empty()) {
    const auto end = std::find_if_not(name.begin(), name.end(), absl::ascii_isalnum);
    const size_t length = static_cast<size_t>(end - name.begin());
    if (const auto split = SplitOfWord(name.substr(0, length))) return split;
    name.remove_prefix(std::min(name.size(), length + 1));
  }
  return std::nullopt;
}

// "...-00000-of-01024"
bool EndsAsShard(absl::string_view name) {
  const auto strip_digits = [&name] {
    const size_t last = name.find_last_not_of("0123456789");
    const bool some = last != absl::string_view::npos && last + 1 < name.size();
    if (some) name = name.substr(0, last + 1);
    return some;
  };
  return strip_digits() && absl::ConsumeSuffix(&name, "-of-") && strip_digits() &&
         absl::EndsWith(name, "-");
}

std::optional<DataFormat> FormatOfName(absl::string_view name) {
  if (absl::EndsWith(name, ".tar")) return DataFormat::kWebDataset;
  if (absl::EndsWith(name, ".rec")) return DataFormat::kRecordIo;
  if (absl::EndsWith(name, ".mdb")) return DataFormat::kLmdb;
  if (absl::EndsWith(name, ".parquet")) return DataFormat::kParquet;
  if (absl::EndsWith(name, ".npy")) return DataFormat::kNpy;
  if (absl::EndsWith(name, ".tfrecord") || absl::EndsWith(name, ".tfrecords") ||
      EndsAsShard(name)) {
    return DataFormat::kTfRecord;
  }
  return std::nullopt;
}

// By what the format's first bytes are; TFRecord has none that are fixed.
std::optional<DataFormat> FormatOfBytes(absl::string_view start) {
  if (absl::StartsWith(start, "\x93NUMPY")) return DataFormat::kNpy;
  if (absl::StartsWith(start, "PAR1")) return DataFormat::kParquet;
  if (absl::StartsWith(start, "\x0a\x23\xd7\xce")) return DataFormat::kRecordIo;
  if (start.size() >= 20 && start.substr(16, 4) == "\xde\xc0\xef\xbe") return DataFormat::kLmdb;
  if (start.size() >= 262 && start.substr(257, 5) == "ustar") return DataFormat::kWebDataset;
  return std::nullopt;
}

bool IsLmdbFolderName(absl::string_view name) {
  return absl::EndsWith(name, ".mdb") || absl::EndsWith(name, ".lmdb") ||
         absl::EndsWith(name, "_lmdb");
}

absl::Status Unknown(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " ", what, ": want folders of pictures by class, *.tar, *.tfrecord, *.rec, ",
      "an LMDB folder, *.parquet or *.npy"));
}

class FormatFinder {
 public:
  explicit FormatFinder(FileSystem& fs) : fs_(fs) {}

  absl::StatusOr<FoundData> Find(const std::string& path) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_pattern, IsPatternOnly(path));
    if (is_pattern) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandFilePattern(fs_, path));
      for (const std::string& file : paths) {
        MUSTER_RETURN_IF_ERROR(PutByName(file, IsLmdbFolderName(BaseNameOf(file))));
      }
      return Finish();
    }
    const auto size = fs_.FileSize(path);
    if (size.ok()) {
      MUSTER_RETURN_IF_ERROR(PutByName(path, /*may_be_folder=*/false));
      return Finish();
    }
    const auto entries = fs_.List(path);
    if (!entries.ok()) return absl::IsNotFound(size.status()) ? size.status() : entries.status();
    MUSTER_RETURN_IF_ERROR(PutFolder(path, *entries));
    return Finish();
  }

 private:
  // What a folder's entries are.
  struct Contents {
    std::vector<std::string> folders;
    std::vector<std::string> lmdb_folders;
    std::vector<std::string> shards;
    bool has_pictures = false;
    bool has_card = false;
    bool is_lmdb = false;
  };

  // A path that is there may hold a '[' or a '{'.
  absl::StatusOr<bool> IsPatternOnly(const std::string& path) {
    if (!IsFilePattern(path)) return false;
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, ExistsIfAllowed(fs_, path));
    return !is_there;
  }

  absl::StatusOr<Contents> Sort(const std::string& path, const std::vector<FileInfo>& entries) {
    Contents contents;
    for (const FileInfo& entry : entries) {
      if (absl::StartsWith(entry.name, ".")) continue;
      if (entry.name == kUnfinishedPack) {
        return absl::FailedPreconditionError(absl::StrCat(
            path, " is not packed whole yet: start `muster data pack` again, it goes on"));
      }
      bool is_folder = entry.is_directory;
      if (entry.is_link) {
        is_folder =
            absl::IsFailedPrecondition(fs_.FileSize(absl::StrCat(path, "/", entry.name)).status());
      }
      if (is_folder) {
        (IsLmdbFolderName(entry.name) ? contents.lmdb_folders : contents.folders)
            .push_back(entry.name);
      } else if (entry.name == kDatasetCard) {
        contents.has_card = true;
      } else if (entry.name == kLmdbFile) {
        contents.is_lmdb = true;
      } else if (FormatOfName(entry.name).has_value()) {
        contents.shards.push_back(entry.name);
      } else if (IsExtensionOf(NameOf(entry.name).extension, PictureExtensions())) {
        contents.has_pictures = true;
      }
    }
    return contents;
  }

  absl::Status PutFolder(const std::string& path, const std::vector<FileInfo>& entries) {
    MUSTER_ASSIGN_OR_RETURN(const Contents contents, Sort(path, entries));
    if (AreSplits(contents.folders)) return PutSplits(path, contents.folders);
    if (HasFolder(contents, kSnapshots)) {
      MUSTER_ASSIGN_OR_RETURN(const std::string snapshot, FindSnapshot(path));
      if (!snapshot.empty()) {
        MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(snapshot));
        return PutFolder(snapshot, files);
      }
    }
    if (contents.has_card) {
      MUSTER_ASSIGN_OR_RETURN(const bool is_told, PutCard(path));
      if (is_told) return absl::OkStatus();
    }
    if (contents.shards.empty() && contents.lmdb_folders.empty() &&
        contents.folders == std::vector<std::string>{kDataFolder}) {
      const std::string folder = absl::StrCat(path, "/", kDataFolder);
      MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(folder));
      MUSTER_ASSIGN_OR_RETURN(const Contents inside, Sort(folder, files));
      if (AreSplits(inside.folders)) return PutSplits(folder, inside.folders);
      if (!inside.shards.empty()) return PutContents(folder, inside, std::nullopt);
    }
    return PutContents(path, contents, std::nullopt);
  }

  static bool HasFolder(const Contents& contents, absl::string_view name) {
    return std::count(contents.folders.begin(), contents.folders.end(), name) > 0;
  }

  // Of a repository in the cache of the Hugging Face Hub: the revision that `main` is, or the only
  // one. Empty: it is no such folder.
  absl::StatusOr<std::string> FindSnapshot(const std::string& path) {
    const std::string folder = absl::StrCat(path, "/", kSnapshots, "/");
    const absl::StatusOr<std::string> main =
        fs_.ReadFile(absl::StrCat(path, "/refs/main"), kMostRefBytes);
    if (main.ok()) {
      const std::string revision(absl::StripAsciiWhitespace(*main));
      MUSTER_ASSIGN_OR_RETURN(const bool is_there, fs_.Exists(folder + revision));
      if (is_there && !revision.empty() && revision.find('/') == std::string::npos)
        return folder + revision;
    }
    MUSTER_ASSIGN_OR_RETURN(const bool has_blobs, fs_.Exists(absl::StrCat(path, "/blobs")));
    if (!main.ok() && !has_blobs) return "";
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> revisions, fs_.List(folder));
    if (revisions.size() == 1) return folder + revisions.front().name;
    return absl::InvalidArgumentError(absl::StrCat(folder, " has ", revisions.size(),
                                                   " revisions: name the folder of one of them"));
  }

  // By what the README of a Hugging Face dataset says of its files. False: nothing, or they are of
  // no kind that lies in shards.
  absl::StatusOr<bool> PutCard(const std::string& path) {
    const std::string card = absl::StrCat(path, "/", kDatasetCard);
    std::string text(kMostCardBytes, '\0');
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs_.ReadAt(card, 0, text.data(), text.size()));
    text.resize(std::min<uint64_t>(got, text.size()));
    const absl::StatusOr<std::vector<CardConfig>> configs = ParseDatasetCard(text);
    if (!configs.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(card, " ", configs.status().message()));
    }
    if (configs->empty()) return false;
    MUSTER_ASSIGN_OR_RETURN(const CardConfig config, ChooseConfig(path, card, *configs));
    std::vector<std::pair<std::string, std::optional<SplitWord>>> files;
    for (const CardSplit& split : config.splits) {
      const std::optional<SplitWord> word = SplitOfWord(split.name);
      // Others, such as "unsupervised", are nobody's.
      if (!word.has_value() && config.splits.size() > 1) continue;
      for (const std::string& pattern : split.patterns) {
        if (absl::StartsWith(pattern, "/") || absl::StrContains(pattern, ".."))
          return absl::InvalidArgumentError(
              absl::StrCat(card, " names ", pattern, " outside of its folder"));
        const absl::StatusOr<std::vector<std::string>> found =
            ExpandFilePattern(fs_, absl::StrCat(path, "/", pattern));
        // Such as "**/*.jpg": of pictures, not of shards.
        if (absl::IsInvalidArgument(found.status())) return false;
        MUSTER_RETURN_IF_ERROR(found.status());
        for (const std::string& file : *found) {
          if (!FormatOfName(file).has_value()) return false;
          files.emplace_back(file, word);
        }
      }
    }
    for (auto& [file, split] : files) {
      MUSTER_RETURN_IF_ERROR(Put(*FormatOfName(file), file, split));
    }
    return !files.empty();
  }

  static absl::StatusOr<CardConfig> ChooseConfig(const std::string& path, const std::string& card,
                                                 const std::vector<CardConfig>& configs) {
    if (configs.size() == 1) return configs.front();
    for (const CardConfig& config : configs)
      if (config.is_default) return config;
    std::vector<std::string> names;
    for (const CardConfig& config : configs) {
      if (config.name == "default") return config;
      names.push_back(config.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(card, " has the configurations ", absl::StrJoin(names, ", "),
                     ", and none is the default: name the files of one by a pattern such as ", path,
                     "/", names.front(), "/*.parquet"));
  }

  // Folders are splits where there are two of them, or nothing else: a class may be called "train".
  static bool AreSplits(const std::vector<std::string>& folders) {
    const auto splits = std::count_if(folders.begin(), folders.end(), [](const std::string& name) {
      return SplitOfWord(name).has_value();
    });
    return splits >= 2 || (splits == 1 && folders.size() == 1);
  }

  absl::Status PutSplits(const std::string& path, const std::vector<std::string>& folders) {
    for (const std::string& name : folders) {
      const auto split = SplitOfWord(name);
      if (!split.has_value()) continue;
      const std::string folder = absl::StrCat(path, "/", name);
      if (!FilesOf(split).empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            folder, " is the second folder of one split, beside that of ", FilesOf(split).front()));
      }
      MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs_.List(folder));
      MUSTER_ASSIGN_OR_RETURN(const Contents contents, Sort(folder, entries));
      MUSTER_RETURN_IF_ERROR(PutContents(folder, contents, split));
    }
    return absl::OkStatus();
  }

  // A folder without splits in it. `split`: that of the folder; else names tell.
  absl::Status PutContents(const std::string& path, const Contents& contents,
                           std::optional<SplitWord> split) {
    if (contents.is_lmdb) {
      const auto own = split.has_value() ? split : SplitInName(BaseNameOf(path));
      return Put(DataFormat::kLmdb, absl::StrCat(path, "/", kLmdbFile), own);
    }
    for (const std::string& name : contents.lmdb_folders) {
      const auto own = split.has_value() ? split : SplitInName(name);
      const std::string file = absl::StrCat(path, "/", name, "/", kLmdbFile);
      MUSTER_RETURN_IF_ERROR(Put(DataFormat::kLmdb, file, own));
    }
    for (const std::string& name : contents.shards) {
      const auto own = split.has_value() ? split : SplitInName(name);
      MUSTER_RETURN_IF_ERROR(Put(*FormatOfName(name), absl::StrCat(path, "/", name), own));
    }
    if (!contents.folders.empty()) return Put(DataFormat::kImageFolder, path, split);
    if (!contents.shards.empty() || !contents.lmdb_folders.empty()) return absl::OkStatus();
    return contents.has_pictures ? Unknown(path, "has pictures, but no folder for each class")
                                 : Unknown(path, "holds no data that is known");
  }

  absl::Status PutByName(const std::string& path, bool may_be_folder) {
    const absl::string_view name = BaseNameOf(path);
    if (may_be_folder && absl::IsFailedPrecondition(fs_.FileSize(path).status())) {
      return Put(DataFormat::kLmdb, absl::StrCat(path, "/", kLmdbFile), SplitInName(name));
    }
    std::optional<DataFormat> format = FormatOfName(name);
    if (!format.has_value()) {
      std::string start(kSniffedBytes, '\0');
      MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                              fs_.ReadUncached(path, 0, start.data(), start.size()));
      start.resize(got);
      format = FormatOfBytes(start);
      if (!format.has_value()) return Unknown(path, "is no file that is known");
    }
    return Put(*format, path, SplitInName(name));
  }

  absl::Status Put(DataFormat format, std::string file, std::optional<SplitWord> split) {
    if (has_format_ && format != found_.format) {
      return absl::InvalidArgumentError(absl::StrCat(
          first_, " is ", DataFormatName(found_.format), ", but ", file, " is ",
          DataFormatName(format), ": want one format; name the files by a pattern such as *.tar"));
    }
    if (!has_format_) first_ = file;
    has_format_ = true;
    found_.format = format;
    FilesOf(split).push_back(std::move(file));
    return absl::OkStatus();
  }

  std::vector<std::string>& FilesOf(std::optional<SplitWord> split) {
    if (!split.has_value()) return found_.unnamed;
    return *split == SplitWord::kTrain        ? found_.train
           : *split == SplitWord::kValidation ? found_.validation
                                              : found_.test;
  }

  FoundData Finish() {
    for (auto* files : {&found_.train, &found_.validation, &found_.test, &found_.unnamed}) {
      std::sort(files->begin(), files->end());
    }
    return std::move(found_);
  }

  FileSystem& fs_;
  FoundData found_;
  bool has_format_ = false;
  std::string first_;  // the file that told the format
};

}  // namespace

const char* DataFormatName(DataFormat format) {
  switch (format) {
    case DataFormat::kImageFolder:
      return "an image folder";
    case DataFormat::kWebDataset:
      return "WebDataset";
    case DataFormat::kTfRecord:
      return "TFRecord";
    case DataFormat::kRecordIo:
      return "RecordIO";
    case DataFormat::kLmdb:
      return "LMDB";
    case DataFormat::kParquet:
      return "Parquet";
    case DataFormat::kNpy:
      return "NumPy";
  }
  return "?";
}

absl::StatusOr<FoundData> FindFormat(FileSystem& fs, const std::string& path) {
  return FormatFinder(fs).Find(WithoutTrailingSlashes(path));
}

absl::Status TakeUnnamedForTraining(const std::string& path, FoundData& found) {
  if (found.train.empty()) {
    std::swap(found.train, found.unnamed);
  } else if (!found.unnamed.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", found.unnamed.front(), " is in no split, though ",
                     found.train.front(), " is: want a name with train, val or test in it"));
  }
  if (!found.train.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has nothing to train on: no train folder or files"));
}

}  // namespace muster::worker
