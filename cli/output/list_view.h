// What --columns, --sort and --filter make of a list, the same for every verb that prints one.
// Pure.
//
// A key is a field of the items as -o json has them (`samples_per_second`, `labels.zone`), or the
// title of a column (`rate`), in any case.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/output/proto_json.h"
#include "cli/output/table.h"

namespace muster::cli {

// As they were given.
struct ListRequest {
  std::vector<std::string> columns;
  std::vector<std::string> sort;     // KEY, or -KEY for the other way round
  std::vector<std::string> filters;  // KEY=VALUE[,VALUE], != ~ < <= > >=; all must hold
};

// Which field a column is made of, where that is not the one of its name.
struct ListKey {
  const char* title;
  const char* field;
  // The field is a time in Unix milliseconds, and the column how long ago that was.
  bool age = false;
};

class ListView {
 public:
  // `sample`: an item with all its fields. INVALID_ARGUMENT: what is sorted or filtered by is none,
  // or a filter is no filter.
  static absl::StatusOr<ListView> Create(const ListRequest& request, std::vector<ListKey> keys,
                                         Json sample, absl::Time now);

  bool sorts() const { return !sort_.empty(); }
  bool filters() const { return !filters_.empty(); }
  bool has_columns() const { return !columns_.empty(); }

  bool Keeps(const Json& item) const;
  // The order asked for, as indices; what is absent comes last, equals stay as they were.
  std::vector<size_t> Order(const std::vector<Json>& items) const;

  // What is kept, in that order.
  template <typename Message>
  std::vector<Message> Arrange(const std::vector<Message>& messages) const {
    if (!sorts() && !filters()) return messages;
    std::vector<Message> kept;
    std::vector<Json> items;
    for (const Message& message : messages) {
      Json item = ToJson(message);
      if (!Keeps(item)) continue;
      items.push_back(std::move(item));
      kept.push_back(message);
    }
    std::vector<Message> arranged;
    for (const size_t i : Order(items)) arranged.push_back(std::move(kept[i]));
    return arranged;
  }

  // The columns asked for, of a table with a row an item. INVALID_ARGUMENT names those there are.
  absl::StatusOr<Table> Columns(const Table& table, const std::vector<Json>& items) const;
  // The items with no other fields than these.
  absl::StatusOr<std::vector<Json>> Fields(const std::vector<Json>& items) const;

 private:
  struct Key {
    std::string field;
    bool age = false;
  };
  struct Filter {
    Key key;
    std::string op;
    std::vector<std::string> values;
  };
  struct Sort {
    Key key;
    bool descending = false;
  };

  absl::StatusOr<Key> FindKey(absl::string_view flag, absl::string_view name) const;
  absl::StatusOr<Filter> ParseFilter(const std::string& text) const;
  // The value that is compared; an age in seconds.
  Json ValueOf(const Json& item, const Key& key) const;

  std::vector<std::string> columns_;
  std::vector<Sort> sort_;
  std::vector<Filter> filters_;
  std::vector<ListKey> keys_;
  Json sample_;
  absl::Time now_;
};

}  // namespace muster::cli
