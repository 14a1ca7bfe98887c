#include "worker/data/formats/parse/lmdb_pages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/little_endian.h"

namespace muster::worker {
namespace {

// A page's header: uint64 number, uint16 pad, uint16 flags, then uint16 lower and upper, or in an
// overflow page uint32 pages. Behind it an array of uint16, where in the page each node begins.
constexpr size_t kPageHeadBytes = 16;
constexpr size_t kFlagsAt = 10, kLowerAt = 12, kOverflowPagesAt = 12;
constexpr uint16_t kBranchPage = 0x01, kLeafPage = 0x02, kOverflowPage = 0x04, kMetaPage = 0x08;
constexpr uint16_t kPageKinds = 0x6f;  // all but "dirty", which is only meant for memory

// A node: uint16 lo, hi, flags, key size; the key; the value. In a leaf lo and hi are the value's
// size, in a branch they and flags are the page below.
constexpr size_t kNodeHeadBytes = 8;
constexpr uint16_t kBigValue = 0x01, kNamedDatabase = 0x02, kSeveralValues = 0x04;

// A meta page: uint32 magic, version; uint64 address, map size; two databases of 48 bytes (free
// pages and main); uint64 last page, transaction.
constexpr size_t kMagicAt = 16, kVersionAt = 20, kPageBytesAt = 40, kMainAt = 88;
constexpr size_t kTransactionAt = 144, kMetaBytes = 152;
// A database: uint32 pad, uint16 flags, depth; uint64 branch, leaf and overflow pages, entries,
// root.
constexpr size_t kDbFlags = 4, kDbDepth = 6, kDbBranches = 8, kDbLeaves = 16;
constexpr size_t kDbEntries = 32, kDbRoot = 40;
constexpr uint16_t kDbSeveralValues = 0x04;

constexpr uint32_t kLmdbMagic = 0xbeefc0deu;
constexpr uint32_t kSwappedMagic = 0xdec0efbeu;
constexpr uint32_t kLmdbVersion = 1;
constexpr size_t kMagicAtIn32Bit = 12;
constexpr uint64_t kLeastPageBytes = 256, kMostPageBytes = 64 << 10;
constexpr uint32_t kMostLevels = 32;  // liblmdb's own bound

struct MetaPage {
  uint64_t page_bytes = 0;
  uint64_t transaction = 0;
  uint16_t flags = 0;  // of the main database
  uint32_t depth = 0;
  uint64_t branches = 0, leaves = 0;
  uint64_t entries = 0;
  uint64_t root = 0;
};

absl::StatusOr<MetaPage> ReadMeta(FileCursor& cursor, uint64_t at) {
  cursor.SeekTo(at);
  if (cursor.remaining() < kMetaBytes) {
    return cursor.Bad(at, "is no LMDB file, or cut off: its meta pages are missing");
  }
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view page, cursor.Read(kMetaBytes));
  const uint32_t magic = ReadLittleEndian<uint32_t>(page.data() + kMagicAt);
  if (magic == kSwappedMagic) {
    return cursor.Bad(at,
                      "was written on a big-endian machine: copy it with mdb_dump there and "
                      "mdb_load here");
  }
  if (magic != kLmdbMagic &&
      ReadLittleEndian<uint32_t>(page.data() + kMagicAtIn32Bit) == kLmdbMagic) {
    return cursor.Bad(at,
                      "was written on a 32-bit machine: copy it with mdb_dump there and "
                      "mdb_load here");
  }
  if (magic != kLmdbMagic ||
      (ReadLittleEndian<uint16_t>(page.data() + kFlagsAt) & kMetaPage) == 0) {
    return cursor.Bad(at, "is no LMDB file");
  }
  const uint32_t version = ReadLittleEndian<uint32_t>(page.data() + kVersionAt);
  if (version != kLmdbVersion) {
    return cursor.Bad(
        at, absl::StrCat("has LMDB's format ", version, ", want ", kLmdbVersion, " of LMDB 0.9"));
  }
  MetaPage meta;
  meta.page_bytes = ReadLittleEndian<uint32_t>(page.data() + kPageBytesAt);
  meta.transaction = ReadLittleEndian<uint64_t>(page.data() + kTransactionAt);
  meta.flags = ReadLittleEndian<uint16_t>(page.data() + kMainAt + kDbFlags);
  meta.depth = ReadLittleEndian<uint16_t>(page.data() + kMainAt + kDbDepth);
  meta.branches = ReadLittleEndian<uint64_t>(page.data() + kMainAt + kDbBranches);
  meta.leaves = ReadLittleEndian<uint64_t>(page.data() + kMainAt + kDbLeaves);
  meta.entries = ReadLittleEndian<uint64_t>(page.data() + kMainAt + kDbEntries);
  meta.root = ReadLittleEndian<uint64_t>(page.data() + kMainAt + kDbRoot);
  const bool is_power = (meta.page_bytes & (meta.page_bytes - 1)) == 0;
  if (!is_power || meta.page_bytes < kLeastPageBytes || meta.page_bytes > kMostPageBytes) {
    return cursor.Bad(at, absl::StrCat("is damaged: pages of ", meta.page_bytes, " bytes"));
  }
  return meta;
}

// Where the page's nodes begin: so many uint16 behind its header.
absl::StatusOr<size_t> NodeCount(const FileCursor& cursor, uint64_t at, absl::string_view page) {
  const size_t lower = ReadLittleEndian<uint16_t>(page.data() + kLowerAt);
  // In a page of 64 KiB nothing tells 65,536 from 0, but no page has so many nodes.
  if (lower < kPageHeadBytes || lower > page.size() || (lower - kPageHeadBytes) % 2 != 0) {
    return cursor.Bad(at, "is a damaged page: its list of nodes does not fit into it");
  }
  return (lower - kPageHeadBytes) / 2;
}

// Where the node number `i` begins, with its head and its key within the page.
absl::StatusOr<size_t> NodeAt(const FileCursor& cursor, uint64_t at, absl::string_view page,
                              size_t i) {
  const size_t node = ReadLittleEndian<uint16_t>(page.data() + kPageHeadBytes + 2 * i);
  if (node < kPageHeadBytes || node + kNodeHeadBytes > page.size() ||
      ReadLittleEndian<uint16_t>(page.data() + node + 6) > page.size() - node - kNodeHeadBytes) {
    return cursor.Bad(at, absl::StrCat("is a damaged page: node ", i, " reaches out of it"));
  }
  return node;
}

}  // namespace

absl::StatusOr<LmdbPages> LmdbPages::Open(FileSystem& fs, const std::string& path,
                                          ReadWindow window) {
  MUSTER_ASSIGN_OR_RETURN(FileCursor cursor, FileCursor::Open(fs, path, window));
  LmdbPages pages(std::move(cursor));
  MUSTER_RETURN_IF_ERROR(pages.ReadMetas());
  return pages;
}

absl::Status LmdbPages::ReadMetas() {
  MUSTER_ASSIGN_OR_RETURN(MetaPage meta, ReadMeta(cursor_, 0));
  MUSTER_ASSIGN_OR_RETURN(const MetaPage other, ReadMeta(cursor_, meta.page_bytes));
  if (other.page_bytes != meta.page_bytes) {
    return cursor_.Bad(meta.page_bytes, "is damaged: its meta pages differ");
  }
  const uint64_t meta_at = other.transaction > meta.transaction ? meta.page_bytes : 0;
  if (meta_at != 0) meta = other;
  if ((meta.flags & kDbSeveralValues) != 0) {
    return cursor_.Bad(meta_at, "has several values for a key (DUPSORT), want one picture a key");
  }
  if (meta.depth > kMostLevels) return cursor_.Bad(meta_at, "is damaged: its tree is too deep");
  page_bytes_ = meta.page_bytes;
  depth_ = meta.depth;
  root_ = meta.root;
  entries_ = meta.entries;
  // More than the file has can only be damage; sums of what it says may not overflow.
  const uint64_t file_pages = cursor_.size() / page_bytes_;
  tree_pages_ = std::min(meta.branches, file_pages) + std::min(meta.leaves, file_pages);
  if ((depth_ == 0) != (entries_ == 0)) {
    return cursor_.Bad(meta_at, absl::StrCat("is damaged: a tree of ", depth_, " levels with ",
                                             entries_, " entries"));
  }
  return absl::OkStatus();
}

absl::Status LmdbPages::Walk(Visit visit) {
  pages_walked_ = 0;
  entries_walked_ = 0;
  if (depth_ > 0) MUSTER_RETURN_IF_ERROR(WalkPage(root_, 1, visit));
  if (entries_walked_ == entries_) return absl::OkStatus();
  return cursor_.Bad(0, absl::StrCat("is damaged: it should have ", entries_, " entries, but has ",
                                     entries_walked_));
}

absl::StatusOr<std::string> LmdbPages::ReadPage(uint64_t number) {
  const uint64_t pages = cursor_.size() / page_bytes_;
  if (number < 2 || number >= pages) {
    return cursor_.Bad(0, absl::StrCat("is damaged or cut off: page ", number, " of ", pages));
  }
  cursor_.SeekTo(number * page_bytes_);
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes, cursor_.Read(page_bytes_));
  std::string page(bytes);
  if (ReadLittleEndian<uint64_t>(page.data()) == number) return page;
  return cursor_.Bad(number * page_bytes_,
                     absl::StrCat("is damaged: page ", number, " says that it is page ",
                                  ReadLittleEndian<uint64_t>(page.data())));
}

// A page of `level`, the root's being 1. No page of a sound tree is walked twice, so that their
// number bounds the walk of a damaged one.
absl::Status LmdbPages::WalkPage(uint64_t number, uint32_t level, Visit visit) {
  const uint64_t at = number * page_bytes_;
  if (++pages_walked_ > tree_pages_) {
    return cursor_.Bad(0, absl::StrCat("is damaged: its tree has more than the ", tree_pages_,
                                       " pages that it should"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string page, ReadPage(number));
  const uint16_t kind = ReadLittleEndian<uint16_t>(page.data() + kFlagsAt) & kPageKinds;
  if (level == depth_ && kind == kLeafPage) return VisitLeaf(at, page, visit);
  if (level == depth_ || kind != kBranchPage) {
    return cursor_.Bad(
        at, absl::StrCat("is a damaged page: kind ", kind, " on level ", level, " of ", depth_));
  }
  MUSTER_ASSIGN_OR_RETURN(const size_t count, NodeCount(cursor_, at, page));
  for (size_t i = 0; i < count; ++i) {
    MUSTER_ASSIGN_OR_RETURN(const size_t node, NodeAt(cursor_, at, page, i));
    const uint64_t below = (ReadLittleEndian<uint32_t>(page.data() + node) |
                            uint64_t{ReadLittleEndian<uint16_t>(page.data() + node + 4)} << 32);
    MUSTER_RETURN_IF_ERROR(WalkPage(below, level + 1, visit));
  }
  return absl::OkStatus();
}

absl::Status LmdbPages::VisitLeaf(uint64_t at, absl::string_view page, Visit visit) {
  MUSTER_ASSIGN_OR_RETURN(const size_t count, NodeCount(cursor_, at, page));
  for (size_t i = 0; i < count; ++i) {
    MUSTER_ASSIGN_OR_RETURN(const size_t node, NodeAt(cursor_, at, page, i));
    Entry entry;
    entry.key =
        page.substr(node + kNodeHeadBytes, ReadLittleEndian<uint16_t>(page.data() + node + 6));
    MUSTER_RETURN_IF_ERROR(FindValue(at, page, node, entry));
    if (++entries_walked_ > entries_) {
      return cursor_.Bad(at, absl::StrCat("is damaged: it has more than the ", entries_,
                                          " entries that it should"));
    }
    MUSTER_RETURN_IF_ERROR(visit(entry));
  }
  return absl::OkStatus();
}

// Behind the key, or in pages of its own, whose first has a header.
absl::Status LmdbPages::FindValue(uint64_t at, absl::string_view page, size_t node, Entry& entry) {
  const uint16_t flags = ReadLittleEndian<uint16_t>(page.data() + node + 4);
  if ((flags & (kNamedDatabase | kSeveralValues)) != 0) {
    return cursor_.Bad(at, absl::StrCat("key ", entry.key, " is a database of its own: want the ",
                                        "pictures in the main one"));
  }
  entry.size = ReadLittleEndian<uint32_t>(page.data() + node);
  const size_t value = node + kNodeHeadBytes + entry.key.size();
  if ((flags & kBigValue) == 0) {
    if (entry.size > page.size() - value) {
      return cursor_.Bad(
          at, absl::StrCat("is a damaged page: the value of ", entry.key, " reaches out of it"));
    }
    entry.offset = at + value;
    return absl::OkStatus();
  }
  if (page.size() - value < 8) {
    return cursor_.Bad(at, absl::StrCat("is a damaged page: ", entry.key, " has no value"));
  }
  const uint64_t number = ReadLittleEndian<uint64_t>(page.data() + value);
  const uint64_t pages = cursor_.size() / page_bytes_;
  if (number < 2 || number >= pages) {
    return cursor_.Bad(at, absl::StrCat("is damaged or cut off: the value of ", entry.key,
                                        " is on page ", number, " of ", pages));
  }
  entry.offset = number * page_bytes_ + kPageHeadBytes;
  if (entry.size > cursor_.size() - entry.offset) {
    return cursor_.Bad(at, absl::StrCat("is damaged or cut off: the value of ", entry.key,
                                        " should have ", entry.size, " bytes"));
  }
  cursor_.SeekTo(number * page_bytes_);
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view head, cursor_.Read(kPageHeadBytes));
  const uint64_t held =
      uint64_t{ReadLittleEndian<uint32_t>(head.data() + kOverflowPagesAt)} * page_bytes_;
  if (ReadLittleEndian<uint64_t>(head.data()) == number &&
      (ReadLittleEndian<uint16_t>(head.data() + kFlagsAt) & kPageKinds) == kOverflowPage &&
      entry.size + kPageHeadBytes <= held) {
    return absl::OkStatus();
  }
  return cursor_.Bad(number * page_bytes_,
                     absl::StrCat("is a damaged page: it should hold the value of ", entry.key));
}

}  // namespace muster::worker
