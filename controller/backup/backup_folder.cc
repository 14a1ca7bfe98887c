#include "controller/backup/backup_folder.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/sha256.h"

namespace muster::controller {
namespace {

constexpr int kFormat = 1;  // of the manifest
constexpr uint64_t kMaxManifestBytes = 64 << 20;
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kOwnerOnly = 0600;
constexpr char kNamePrefix[] = "muster-";

// A name that leads nowhere but below the folder.
bool StaysBelow(const std::string& name) {
  if (name.empty() || name[0] == '/') return false;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

absl::StatusOr<BackedUpFile> ReadThrough(
    FileSystem& fs, const std::string& path, const std::string& name,
    const std::function<absl::Status(absl::string_view)>& take) {
  BackedUpFile file{.name = name};
  Sha256 hash;
  std::string piece(kPieceBytes, '\0');
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t read,
                            fs.ReadAt(path, file.bytes, piece.data(), piece.size()));
    if (read == 0) break;
    const absl::string_view bytes(piece.data(), read);
    hash.Update(bytes);
    MUSTER_RETURN_IF_ERROR(take(bytes));
    file.bytes += read;
  }
  file.sha256 = hash.FinishHex();
  return file;
}

}  // namespace

uint64_t BackupManifest::bytes() const {
  uint64_t sum = 0;
  for (const BackedUpFile& file : files) sum += file.bytes;
  return sum;
}

std::string BackupName(absl::Time at, uint64_t term) {
  return absl::StrCat(kNamePrefix, absl::FormatTime("%Y%m%dT%H%M%E3SZ", at, absl::UTCTimeZone()),
                      "-", term);
}

bool IsBackupName(absl::string_view name) {
  constexpr absl::string_view kShape = "00000000T000000.000Z-";
  if (!absl::ConsumePrefix(&name, kNamePrefix) || name.size() <= kShape.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char wanted = i < kShape.size() ? kShape[i] : '0';
    if (wanted == '0' ? !absl::ascii_isdigit(name[i]) : name[i] != wanted) return false;
  }
  return true;
}

absl::Status WriteManifest(FileSystem& fs, const std::string& folder,
                           const BackupManifest& manifest) {
  nlohmann::json files = nlohmann::json::array();
  for (const BackedUpFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const nlohmann::json json = {{"format", kFormat},
                               {"version", manifest.version},
                               {"term", manifest.term},
                               {"finished_ms", absl::ToUnixMillis(manifest.finished)},
                               {"took_ms", absl::ToInt64Milliseconds(manifest.took)},
                               {"files", std::move(files)}};
  return WriteFileAtomically(fs, folder + "/manifest.json", json.dump(1) + "\n", kOwnerOnly);
}

absl::StatusOr<BackupManifest> ReadManifest(FileSystem& fs, const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const absl::StatusOr<std::string> text = fs.ReadFile(path, kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        folder,
        ": is no backup, for it has no manifest.json; a backup is a folder muster-TIME-TERM"
        " below musterd's --backup-dir"));
  }
  MUSTER_RETURN_IF_ERROR(text.status());
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto number = [](const nlohmann::json& object, const char* key) -> uint64_t {
    const auto it = object.find(key);
    return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
  };
  const auto word = [](const nlohmann::json& object, const char* key) -> std::string {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : "";
  };
  if (!json.is_object()) return bad("is no JSON object: the backup is damaged, take another one");
  if (number(json, "format") != kFormat) {
    return bad(absl::StrCat("has format ", number(json, "format"), ", this program reads ", kFormat,
                            ": restore with the musterd that made it (", word(json, "version"),
                            ")"));
  }
  BackupManifest manifest;
  manifest.version = word(json, "version");
  manifest.term = number(json, "term");
  manifest.finished = absl::FromUnixMillis(static_cast<int64_t>(number(json, "finished_ms")));
  manifest.took = absl::Milliseconds(static_cast<int64_t>(number(json, "took_ms")));
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array()) return bad("names no files");
  for (const auto& entry : *files) {
    if (!entry.is_object()) return bad("names a file that is none");
    BackedUpFile file{word(entry, "name"), number(entry, "bytes"), word(entry, "sha256")};
    if (!StaysBelow(file.name) || !IsSha256Hex(file.sha256)) {
      return bad(absl::StrCat("names a file that is none: '", file.name, "'"));
    }
    manifest.files.push_back(std::move(file));
  }
  for (const char* database : kDatabases) {
    bool is_there = false;
    for (const BackedUpFile& file : manifest.files) is_there |= file.name == database;
    if (!is_there) return bad(absl::StrCat("names no ", database));
  }
  return manifest;
}

absl::StatusOr<BackedUpFile> HashFile(FileSystem& fs, const std::string& path,
                                      const std::string& name) {
  return ReadThrough(fs, path, name, [](absl::string_view) { return absl::OkStatus(); });
}

absl::StatusOr<BackedUpFile> CopyFile(FileSystem& fs, const std::string& from,
                                      const std::string& to, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          fs.CreateExclusive(to, kOwnerOnly));
  MUSTER_ASSIGN_OR_RETURN(
      const BackedUpFile copied,
      ReadThrough(fs, from, name, [&](absl::string_view bytes) { return file->Append(bytes); }));
  MUSTER_RETURN_IF_ERROR(file->Sync());
  MUSTER_RETURN_IF_ERROR(file->Close());
  return copied;
}

}  // namespace muster::controller
