// The members of a tar archive: their names, and where in the file their bytes lie.
//
// Used by the WebDataset reader. Headers only are read. Knows v7 and ustar with its prefix (POSIX
// 1003.1-1988), PAX records and global ones (POSIX 1003.1-2001, "pax Interchange Format"), and
// GNU's long names, sizes in base 256 and "L", "K" members (the manual of GNU tar, "Basic Tar
// Format"). One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/formats/parse/file_cursor.h"

namespace muster::worker {

struct TarMember {
  enum class Kind { kFile, kFolder, kLink, kOther };

  std::string name;
  Kind kind = Kind::kFile;
  uint64_t header_offset = 0;  // of its own header in the archive, in bytes
  uint64_t offset = 0;         // of its bytes
  uint64_t size = 0;           // of them
};

// What a member's own header says, for who looks at it alone: without the PAX records and long
// names before it. Nothing: the bytes are no header of a file.
struct LoneTarHeader {
  std::string name;
  uint64_t size = 0;
};
std::optional<LoneTarHeader> ParseLoneTarHeader(absl::string_view bytes);

class TarMembers {
 public:
  // Errors of FileSystem::FileSize.
  static absl::StatusOr<TarMembers> Open(FileSystem& fs, const std::string& path,
                                         ReadWindow window = {});

  // False at the end of the archive. INVALID_ARGUMENT with the place: no header, a wrong checksum,
  // an archive that is cut off (one without its end marker, too), compressed, or of several
  // volumes, a sparse member, and more archives behind the first.
  absl::StatusOr<bool> Next(TarMember& member);

  // What the member holds, valid until the next call. INVALID_ARGUMENT where that is more than
  // `most_bytes`, which are at most FileCursor::kMostReadBytes.
  absl::StatusOr<absl::string_view> Contents(const TarMember& member, uint64_t most_bytes);

  const FileCursor& file() const { return cursor_; }

 private:
  // What PAX records say about the members behind them.
  struct Overrides {
    bool has_path = false;
    bool has_size = false;
    std::string path;
    uint64_t size = 0;
  };

  explicit TarMembers(FileCursor cursor) : cursor_(std::move(cursor)) {}
  absl::StatusOr<std::string> ReadMetadata(uint64_t size);
  absl::Status ReadPax(absl::string_view records, uint64_t offset, Overrides& overrides) const;
  absl::Status CheckEnd();
  absl::Status CheckHeader(absl::string_view header, uint64_t at) const;
  absl::Status Place(absl::string_view header, const Overrides& own, std::string long_name,
                     TarMember& member);

  FileCursor cursor_;
  Overrides global_;
  uint64_t next_header_ = 0;
};

}  // namespace muster::worker
