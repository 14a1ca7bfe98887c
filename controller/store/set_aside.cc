#include "controller/store/set_aside.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace muster::controller {
namespace {

// The log first: without its database nobody takes it for that of the new one.
constexpr const char* kFiles[] = {"-wal", "-shm", "-journal", ""};
constexpr const char* kMark = ".broken-";
// Databases that are set aside within one second.
constexpr int kMostNames = 100;

// What was set aside of the database, oldest first: the files by the path without their endings.
std::map<std::string, std::vector<std::filesystem::path>> AllAside(const std::string& path) {
  std::map<std::string, std::vector<std::filesystem::path>> aside;
  const std::string begin = absl::StrCat(path, kMark);
  std::error_code error;
  std::filesystem::directory_iterator entry(std::filesystem::path(path).parent_path(), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string file = entry->path().string();
    if (file.compare(0, begin.size(), begin) != 0) continue;
    absl::string_view database = file;
    for (const char* ending : kFiles) absl::ConsumeSuffix(&database, ending);
    aside[std::string(database)].push_back(entry->path());
  }
  return aside;
}

}  // namespace

absl::StatusOr<AsideDatabase> SetAsideDatabase(const std::string& path, absl::Time now) {
  const std::string base =
      absl::StrCat(path, kMark, absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
  std::string aside = base;
  std::error_code error;
  for (int i = 2; i <= kMostNames && std::filesystem::exists(aside, error); ++i) {
    aside = absl::StrCat(base, "-", i);
  }
  for (const char* file : kFiles) {
    if (!std::filesystem::exists(path + file, error)) continue;
    std::filesystem::rename(path + file, aside + file, error);
    if (error) {
      return absl::UnknownError(
          absl::StrCat(path, file, ": cannot be set aside: ", error.message()));
    }
  }
  AsideDatabase result{.path = aside, .removed = {}};
  std::map<std::string, std::vector<std::filesystem::path>> all = AllAside(path);
  all.erase(aside);  // it stays, whatever the clock says
  while (all.size() + 1 > kMostSetAside) {
    const auto oldest = all.begin();
    for (const std::filesystem::path& file : oldest->second) {
      std::filesystem::remove(file, error);
    }
    result.removed.push_back(oldest->first);
    all.erase(oldest);
  }
  return result;
}

}  // namespace muster::controller
