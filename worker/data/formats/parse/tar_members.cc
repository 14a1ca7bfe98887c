#include "worker/data/formats/parse/tar_members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr uint64_t kTarBlockBytes = 512;
// Writers fill up to records of 10 KiB; of what lies behind, so much is looked at.
constexpr uint64_t kMostEndBytes = 1 << 20;
constexpr uint64_t kMostTarBytes = uint64_t{1} << 62;
// Fields of the header: where, and how long.
constexpr size_t kSizeAt = 124, kSizeBytes = 12;
constexpr size_t kChecksumAt = 148, kChecksumBytes = 8;
constexpr size_t kTypeAt = 156;
constexpr size_t kUstarAt = 257;
constexpr size_t kPrefixAt = 345, kPrefixBytes = 155;

uint64_t Padded(uint64_t size) {
  return (size + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

bool AllZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

absl::string_view UpToNul(absl::string_view field) { return field.substr(0, field.find('\0')); }

// An octal number between spaces or NULs, or GNU's base 256: the first bit is set, the rest is a
// number with its highest byte first.
bool ParseNumber(absl::string_view field, uint64_t& value) {
  value = 0;
  if ((static_cast<uint8_t>(field[0]) & 0x80) != 0) {
    if (static_cast<uint8_t>(field[0]) != 0x80) return false;  // negative, or far too large
    for (const char c : field.substr(1)) {
      if (value > kMostTarBytes >> 8) return false;
      value = value << 8 | static_cast<uint8_t>(c);
    }
    return true;
  }
  size_t at = field.find_first_not_of(' ');
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at) {
    value = value << 3 | static_cast<uint64_t>(field[at] - '0');  // 12 digits at most
  }
  return at >= field.size() || field[at] == ' ' || field[at] == '\0';
}

// The sum of the header's bytes with its own field as spaces; some writers took them as signed.
bool ChecksumHolds(absl::string_view header) {
  uint64_t stored = 0;
  if (!ParseNumber(header.substr(kChecksumAt, kChecksumBytes), stored)) return false;
  int64_t with_sign = 0;
  uint64_t without = 0;
  for (size_t i = 0; i < kTarBlockBytes; ++i) {
    const char c = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes ? ' ' : header[i];
    without += static_cast<uint8_t>(c);
    with_sign += static_cast<signed char>(c);
  }
  return stored == without || (with_sign >= 0 && stored == static_cast<uint64_t>(with_sign));
}

std::string NameIn(absl::string_view header) {
  const absl::string_view name = UpToNul(header.substr(0, 100));
  // GNU's own header ("ustar  ") has times where ustar has the prefix.
  if (header.substr(kUstarAt, 6) != absl::string_view("ustar\0", 6)) return std::string(name);
  const absl::string_view prefix = UpToNul(header.substr(kPrefixAt, kPrefixBytes));
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, "/", name);
}

TarMember::Kind KindOf(char type, absl::string_view name) {
  switch (type) {
    case '0':
    case '7':  // a file whose bytes were to be kept together on disk
      return TarMember::Kind::kFile;
    case '\0':  // v7 told folders by their slash
      return absl::EndsWith(name, "/") ? TarMember::Kind::kFolder : TarMember::Kind::kFile;
    case '1':
    case '2':
      return TarMember::Kind::kLink;
    case '5':
      return TarMember::Kind::kFolder;
    default:
      return TarMember::Kind::kOther;
  }
}

// Devices, folders and links have no bytes, whatever their header says.
bool HasBytes(char type) { return type < '1' || type > '6'; }

}  // namespace

std::optional<LoneTarHeader> ParseLoneTarHeader(absl::string_view bytes) {
  if (bytes.size() != kTarBlockBytes || AllZero(bytes) || !ChecksumHolds(bytes))
    return std::nullopt;
  LoneTarHeader header;
  header.name = NameIn(bytes);
  if (KindOf(bytes[kTypeAt], header.name) != TarMember::Kind::kFile ||
      !ParseNumber(bytes.substr(kSizeAt, kSizeBytes), header.size)) {
    return std::nullopt;
  }
  return header;
}

absl::StatusOr<TarMembers> TarMembers::Open(FileSystem& fs, const std::string& path,
                                            ReadWindow window) {
  MUSTER_ASSIGN_OR_RETURN(FileCursor cursor, FileCursor::Open(fs, path, window));
  return TarMembers(std::move(cursor));
}

absl::StatusOr<bool> TarMembers::Next(TarMember& member) {
  Overrides own;
  std::string long_name;
  while (true) {
    const uint64_t at = next_header_;
    cursor_.SeekTo(at);
    if (cursor_.remaining() == 0) {
      return cursor_.Bad(at, "ends without the two empty blocks of a whole archive: cut off?");
    }
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view header, cursor_.Read(kTarBlockBytes));
    if (AllZero(header)) {
      MUSTER_RETURN_IF_ERROR(CheckEnd());
      return false;
    }
    MUSTER_RETURN_IF_ERROR(CheckHeader(header, at));
    const char type = header[kTypeAt];
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K') {
      member.header_offset = at;
      MUSTER_RETURN_IF_ERROR(Place(header, own, std::move(long_name), member));
      return true;
    }
    uint64_t size = 0;
    if (!ParseNumber(header.substr(kSizeAt, kSizeBytes), size)) {
      return cursor_.Bad(at, "has no size that can be read");
    }
    MUSTER_ASSIGN_OR_RETURN(const std::string metadata, ReadMetadata(size));
    if (type == 'L') long_name = std::string(UpToNul(metadata));
    if (type == 'x') MUSTER_RETURN_IF_ERROR(ReadPax(metadata, at + kTarBlockBytes, own));
    if (type == 'g') MUSTER_RETURN_IF_ERROR(ReadPax(metadata, at + kTarBlockBytes, global_));
  }
}

absl::StatusOr<absl::string_view> TarMembers::Contents(const TarMember& member,
                                                       uint64_t most_bytes) {
  if (member.size > most_bytes) {
    return cursor_.Bad(member.header_offset,
                       absl::StrCat("member ", member.name, " has ", member.size,
                                    " bytes, more than the ", most_bytes, " allowed for it"));
  }
  cursor_.SeekTo(member.offset);
  return cursor_.Read(member.size);
}

absl::Status TarMembers::CheckHeader(absl::string_view header, uint64_t at) const {
  if (ChecksumHolds(header)) return absl::OkStatus();
  if (at == 0 && absl::StartsWith(header, "\x1f\x8b")) {
    return cursor_.Bad(at,
                       "is compressed, so nothing in it can be read by its place: unpack it "
                       "with gunzip");
  }
  return cursor_.Bad(at, "is no header of a tar member: its checksum is wrong");
}

// Sets all of the member but header_offset, and where the next header lies.
absl::Status TarMembers::Place(absl::string_view header, const Overrides& own,
                               std::string long_name, TarMember& member) {
  const uint64_t at = member.header_offset;
  const char type = header[kTypeAt];
  member.name = own.has_path         ? own.path
                : !long_name.empty() ? std::move(long_name)
                : global_.has_path   ? global_.path
                                     : NameIn(header);
  member.kind = KindOf(type, member.name);
  if (type == 'S') {
    return cursor_.Bad(at, absl::StrCat("member ", member.name, " is sparse, so its bytes are not ",
                                        "in one piece: write the archive without --sparse"));
  }
  if (type == 'M') return cursor_.Bad(at, "is one volume of several: join them");
  if (member.name.find('\0') != std::string::npos) return cursor_.Bad(at, "has a name with a NUL");
  if (!ParseNumber(header.substr(kSizeAt, kSizeBytes), member.size)) {
    return cursor_.Bad(at, absl::StrCat("member ", member.name, " has no size that can be read"));
  }
  if (global_.has_size) member.size = global_.size;
  if (own.has_size) member.size = own.size;
  if (!HasBytes(type)) member.size = 0;
  member.offset = at + kTarBlockBytes;
  const uint64_t left = cursor_.size() - member.offset;
  if (member.size > left || Padded(member.size) > left) {
    return cursor_.Bad(
        at, absl::StrCat("member ", member.name, " should have ", member.size,
                         " bytes, but the archive has only ", left, " more: it is cut off"));
  }
  next_header_ = member.offset + Padded(member.size);
  return absl::OkStatus();
}

// The bytes behind a header of metadata; the next header is then behind them.
absl::StatusOr<std::string> TarMembers::ReadMetadata(uint64_t size) {
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes, cursor_.Read(size));
  std::string metadata(bytes);
  MUSTER_RETURN_IF_ERROR(cursor_.Skip(Padded(size) - size));
  next_header_ = cursor_.position();
  return metadata;
}

// Records are "LENGTH KEY=VALUE\n", where the length counts the whole record. An empty value takes
// back what an earlier one said.
absl::Status TarMembers::ReadPax(absl::string_view records, uint64_t offset,
                                 Overrides& overrides) const {
  while (!records.empty() && !AllZero(records)) {
    const size_t space = records.find(' ');
    uint64_t length = 0;
    if (space == absl::string_view::npos || !absl::SimpleAtoi(records.substr(0, space), &length) ||
        length > records.size() || length < space + 2 || records[length - 1] != '\n') {
      return cursor_.Bad(offset, "is no PAX record");
    }
    const absl::string_view record = records.substr(space + 1, length - space - 2);
    const size_t equals = record.find('=');
    if (equals == absl::string_view::npos) return cursor_.Bad(offset, "is no PAX record");
    const absl::string_view key = record.substr(0, equals);
    const absl::string_view value = record.substr(equals + 1);
    if (absl::StartsWith(key, "GNU.sparse.")) {
      return cursor_.Bad(offset,
                         "a sparse member, whose bytes are not in one piece: write the "
                         "archive without --sparse");
    }
    if (key == "path") {
      overrides.has_path = !value.empty();
      overrides.path = std::string(value);
    } else if (key == "size") {
      overrides.has_size = !value.empty();
      if (overrides.has_size &&
          (!absl::SimpleAtoi(value, &overrides.size) || overrides.size > kMostTarBytes)) {
        return cursor_.Bad(offset, "has a PAX size that is no number");
      }
    }
    records.remove_prefix(length);
    offset += length;
  }
  return absl::OkStatus();
}

// Behind the first empty block nothing else may stand: archives that were put together with cat
// would else lose all but the first.
absl::Status TarMembers::CheckEnd() {
  const uint64_t until = cursor_.position() + kMostEndBytes;
  if (cursor_.remaining() < kTarBlockBytes) {
    return cursor_.Bad(cursor_.position(), "ends after one of its two empty blocks: cut off?");
  }
  while (cursor_.remaining() > 0 && cursor_.position() < until) {
    const uint64_t at = cursor_.position();
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view block,
                            cursor_.Read(std::min(cursor_.remaining(), kTarBlockBytes)));
    if (!AllZero(block)) {
      return cursor_.Bad(at,
                         "goes on behind its end: are these several archives in one file? "
                         "Join them with tar --concatenate");
    }
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
