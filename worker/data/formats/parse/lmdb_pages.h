// The keys of an LMDB file's main database, and where in the file their values lie.
//
// Used by the LMDB reader. The pages are read by hand, not mapped: liblmdb trusts the file, and a
// damaged one crashes its process; and pages can be read from an object store as well. Format:
// LMDB 0.9, data version 1, of 64-bit little-endian machines (github.com/LMDB/lmdb,
// libraries/liblmdb/mdb.c, "Common header for all page types", MDB_meta, MDB_node).
//
// Takes no lock: nobody may write to the file meanwhile. Memory: a page for each level of the tree.
// One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/formats/parse/file_cursor.h"

namespace muster::worker {

class LmdbPages {
 public:
  struct Entry {
    absl::string_view key;  // valid during the call
    uint64_t offset = 0;    // of the value in the file, in bytes
    uint64_t size = 0;      // of it
  };
  using Visit = absl::FunctionRef<absl::Status(const Entry& entry)>;

  // Reads both meta pages and takes the later one. INVALID_ARGUMENT: no LMDB file; one of another
  // version, byte order or word size; one whose keys have several values. Errors of FileSystem.
  static absl::StatusOr<LmdbPages> Open(FileSystem& fs, const std::string& path,
                                        ReadWindow window = {});

  uint64_t entries() const { return entries_; }  // as the file says

  // Visits all entries in the database's order. INVALID_ARGUMENT with the page's place where the
  // tree is damaged, and for a named database; the first error of `visit`, which may use file().
  absl::Status Walk(Visit visit);

  FileCursor& file() { return cursor_; }

 private:
  explicit LmdbPages(FileCursor cursor) : cursor_(std::move(cursor)) {}
  absl::Status ReadMetas();
  absl::StatusOr<std::string> ReadPage(uint64_t number);
  absl::Status WalkPage(uint64_t number, uint32_t level, Visit visit);
  absl::Status VisitLeaf(uint64_t at, absl::string_view page, Visit visit);
  absl::Status FindValue(uint64_t at, absl::string_view page, size_t node, Entry& entry);

  FileCursor cursor_;
  uint64_t page_bytes_ = 0;
  uint32_t depth_ = 0;       // levels of the tree; 0: it is empty
  uint64_t root_ = 0;        // its page
  uint64_t tree_pages_ = 0;  // of it, as the file says
  uint64_t entries_ = 0;
  uint64_t pages_walked_ = 0;
  uint64_t entries_walked_ = 0;
};

}  // namespace muster::worker
