// Writes LMDB files through liblmdb, and reads them back through it: the format's own program.
#pragma once

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::testing {

// An environment in a folder that is there. Whatever fails aborts the test's program.
class LmdbWriter {
 public:
  using Items = std::vector<std::pair<std::string, std::string>>;

  explicit LmdbWriter(const std::string& folder, unsigned flags = MDB_NOSYNC) {
    Check(::mdb_env_create(&env_));
    Check(::mdb_env_set_mapsize(env_, size_t{1} << 30));
    Check(::mdb_env_set_maxdbs(env_, 4));
    Check(::mdb_env_open(env_, folder.c_str(), flags, 0644));
  }
  ~LmdbWriter() { ::mdb_env_close(env_); }
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  // One transaction. `database`: null is the main one.
  void Put(const Items& items, const char* database = nullptr, unsigned database_flags = 0) {
    MDB_txn* txn = nullptr;
    Check(::mdb_txn_begin(env_, nullptr, 0, &txn));
    MDB_dbi dbi = 0;
    Check(::mdb_dbi_open(txn, database, database_flags | MDB_CREATE, &dbi));
    for (const auto& [key, value] : items) {
      MDB_val k{key.size(), const_cast<char*>(key.data())};
      MDB_val v{value.size(), const_cast<char*>(value.data())};
      Check(::mdb_put(txn, dbi, &k, &v, 0));
    }
    Check(::mdb_txn_commit(txn));
  }
  void Delete(const std::string& key) {
    MDB_txn* txn = nullptr;
    Check(::mdb_txn_begin(env_, nullptr, 0, &txn));
    MDB_dbi dbi = 0;
    Check(::mdb_dbi_open(txn, nullptr, 0, &dbi));
    MDB_val k{key.size(), const_cast<char*>(key.data())};
    Check(::mdb_del(txn, dbi, &k, nullptr));
    Check(::mdb_txn_commit(txn));
  }
  // All of the main database, as liblmdb's cursor gives it.
  Items All() {
    MDB_txn* txn = nullptr;
    Check(::mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn));
    MDB_dbi dbi = 0;
    Check(::mdb_dbi_open(txn, nullptr, 0, &dbi));
    MDB_cursor* cursor = nullptr;
    Check(::mdb_cursor_open(txn, dbi, &cursor));
    Items items;
    MDB_val k, v;
    while (::mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
      items.emplace_back(std::string(static_cast<char*>(k.mv_data), k.mv_size),
                         std::string(static_cast<char*>(v.mv_data), v.mv_size));
    }
    ::mdb_cursor_close(cursor);
    ::mdb_txn_abort(txn);
    return items;
  }

 private:
  static void Check(int code) {
    if (code == 0) return;
    ::fprintf(stderr, "liblmdb: %s\n", ::mdb_strerror(code));
    ::abort();
  }

  MDB_env* env_ = nullptr;
};

}  // namespace muster::testing
