#include "cli/output/list_view.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

// "ENDED (UTC)" is named `ended`.
std::string NameOfTitle(absl::string_view title) {
  return absl::AsciiStrToLower(title.substr(0, title.find(" (")));
}

std::string Names(const Json& sample) {
  std::vector<std::string> names;
  for (const auto& [name, value] : sample.items()) names.push_back(name);
  return absl::StrJoin(names, ", ");
}

std::string FieldText(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return Number(value.get<double>());
  if (value.is_array()) {
    return absl::StrJoin(value, ",", [](std::string* out, const Json& item) {
      absl::StrAppend(out, FieldText(item));
    });
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<double> AsNumber(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

// "12", "90%", "true", and a duration where it is compared with an age.
std::optional<double> NumberIn(absl::string_view text, bool age) {
  if (age) {
    const auto duration = ParseDuration(text);
    if (duration.ok()) return absl::ToDoubleSeconds(*duration);
    return std::nullopt;
  }
  if (absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "yes")) return 1;
  if (absl::EqualsIgnoreCase(text, "false") || absl::EqualsIgnoreCase(text, "no")) return 0;
  constexpr double kPercent = 100;
  const double scale = absl::ConsumeSuffix(&text, "%") ? kPercent : 1;
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return std::nullopt;
  return number / scale;
}

bool Equals(const Json& value, const std::string& wanted, bool age) {
  if (value.is_array()) {
    return std::any_of(value.begin(), value.end(),
                       [&](const Json& item) { return Equals(item, wanted, age); });
  }
  const std::optional<double> number = AsNumber(value);
  const std::optional<double> other = NumberIn(wanted, age);
  if (number.has_value() && other.has_value()) return *number == *other;
  return absl::EqualsIgnoreCase(FieldText(value), wanted);
}

// Below zero: `value` comes first.
int Compare(const Json& value, const Json& other) {
  const std::optional<double> a = AsNumber(value);
  const std::optional<double> b = AsNumber(other);
  if (a.has_value() && b.has_value()) return *a < *b ? -1 : *a > *b ? 1 : 0;
  return FieldText(value).compare(FieldText(other));
}

bool Holds(const Json& value, const std::string& op, const std::vector<std::string>& wanted,
           bool age) {
  if (op == "=" || op == "!=") {
    const bool any = std::any_of(wanted.begin(), wanted.end(),
                                 [&](const std::string& one) { return Equals(value, one, age); });
    return any == (op == "=");
  }
  if (op == "~") {
    return absl::StrContains(absl::AsciiStrToLower(FieldText(value)),
                             absl::AsciiStrToLower(wanted[0]));
  }
  if (value.is_null()) return false;
  const std::optional<double> number = NumberIn(wanted[0], age);
  const int compared = Compare(value, number.has_value() ? Json(*number) : Json(wanted[0]));
  if (op == "<") return compared < 0;
  if (op == "<=") return compared <= 0;
  return op == ">" ? compared > 0 : compared >= 0;
}

}  // namespace

absl::StatusOr<ListView> ListView::Create(const ListRequest& request, std::vector<ListKey> keys,
                                          Json sample, absl::Time now) {
  ListView view;
  view.columns_ = request.columns;
  view.keys_ = std::move(keys);
  view.sample_ = std::move(sample);
  view.now_ = now;
  for (const std::string& text : request.filters) {
    MUSTER_ASSIGN_OR_RETURN(Filter filter, view.ParseFilter(text));
    view.filters_.push_back(std::move(filter));
  }
  for (absl::string_view name : request.sort) {
    Sort sort;
    sort.descending = absl::ConsumePrefix(&name, "-");
    MUSTER_ASSIGN_OR_RETURN(sort.key, view.FindKey("--sort", name));
    view.sort_.push_back(std::move(sort));
  }
  return view;
}

absl::StatusOr<ListView::Key> ListView::FindKey(absl::string_view flag,
                                                absl::string_view name) const {
  const std::string lower = absl::AsciiStrToLower(name);
  // Of a mapping one entry: labels.zone.
  const std::string field = lower.substr(0, lower.find('.'));
  if (sample_.contains(field)) {
    return Key{absl::StrCat(field, name.substr(field.size())), /*age=*/false};
  }
  for (const ListKey& key : keys_) {
    if (lower == key.title) return Key{key.field, key.age};
  }
  std::vector<std::string> titles;
  for (const ListKey& key : keys_) titles.push_back(key.title);
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", name, ": there is no such; there are ",
                                                 absl::StrJoin(titles, ", "), ", ",
                                                 Names(sample_)));
}

absl::StatusOr<ListView::Filter> ListView::ParseFilter(const std::string& text) const {
  const size_t at = text.find_first_of("=!~<>");
  const bool two = at != std::string::npos && at + 1 < text.size() && text[at + 1] == '=';
  Filter filter;
  if (at != std::string::npos) filter.op = text.substr(at, two ? 2 : 1);
  if (filter.op == "==") filter.op = "=";
  if (at == std::string::npos || at == 0 || filter.op == "!" || filter.op == "~=") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--filter ", text, ": must be such as state=running,pending, name~digits or loss<0.5"));
  }
  MUSTER_ASSIGN_OR_RETURN(filter.key, FindKey("--filter", text.substr(0, at)));
  const std::string value = text.substr(at + (two ? 2 : 1));
  const bool several = filter.op == "=" || filter.op == "!=";
  filter.values = several ? std::vector<std::string>(absl::StrSplit(value, ','))
                          : std::vector<std::string>{value};
  const bool compares = filter.op.front() == '<' || filter.op.front() == '>';
  if (filter.key.age && compares && !NumberIn(value, /*age=*/true).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--filter ", text, ": an age is compared with one such as 30m or 24h"));
  }
  return filter;
}

Json ListView::ValueOf(const Json& item, const Key& key) const {
  const Json* value = &item;
  std::string rest = key.field;
  // Names of entries may have dots in them: only the first one parts.
  const size_t dot = rest.find('.');
  for (const std::string& name :
       {rest.substr(0, dot), dot == std::string::npos ? std::string() : rest.substr(dot + 1)}) {
    if (name.empty() && dot == std::string::npos) break;
    if (!value->is_object() || !value->contains(name)) return nullptr;
    value = &value->at(name);
  }
  if (!key.age) return *value;
  if (!value->is_number() || value->get<int64_t>() == 0) return nullptr;
  return absl::ToDoubleSeconds(now_ - absl::FromUnixMillis(value->get<int64_t>()));
}

bool ListView::Keeps(const Json& item) const {
  return std::all_of(filters_.begin(), filters_.end(), [&](const Filter& filter) {
    return Holds(ValueOf(item, filter.key), filter.op, filter.values, filter.key.age);
  });
}

std::vector<size_t> ListView::Order(const std::vector<Json>& items) const {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (auto sort = sort_.rbegin(); sort != sort_.rend(); ++sort) {
    std::vector<Json> values;
    for (const Json& item : items) values.push_back(ValueOf(item, sort->key));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (values[a].is_null() || values[b].is_null()) {
        return !values[a].is_null() && values[b].is_null();
      }
      const int compared = Compare(values[a], values[b]);
      return sort->descending ? compared > 0 : compared < 0;
    });
  }
  return order;
}

absl::StatusOr<Table> ListView::Columns(const Table& table, const std::vector<Json>& items) const {
  if (columns_.empty()) return table;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows(items.size());
  for (const std::string& name : columns_) {
    const std::string lower = absl::AsciiStrToLower(name);
    const std::vector<Column>& all = table.columns();
    const auto column = std::find_if(all.begin(), all.end(), [&](const Column& each) {
      return NameOfTitle(each.title) == lower;
    });
    if (column != all.end()) {
      const size_t at = static_cast<size_t>(column - all.begin());
      for (size_t row = 0; row < rows.size(); ++row) rows[row].push_back(table.rows()[row][at]);
      columns.push_back(*column);
      continue;
    }
    const absl::StatusOr<Key> key = FindKey("--columns", name);
    if (!key.ok()) {
      const std::string titles = absl::StrJoin(all, ", ", [](std::string* out, const Column& each) {
        absl::StrAppend(out, NameOfTitle(each.title));
      });
      return absl::InvalidArgumentError(absl::StrCat("--columns ", name,
                                                     ": there is no such column; there are ",
                                                     titles, ", and the fields that -o json has"));
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      rows[row].push_back(FieldText(ValueOf(items[row], *key)));
    }
    columns.push_back({.title = absl::AsciiStrToUpper(name), .elastic = true});
  }
  Table picked(std::move(columns));
  for (std::vector<std::string>& row : rows) picked.Add(std::move(row));
  return picked;
}

absl::StatusOr<std::vector<Json>> ListView::Fields(const std::vector<Json>& items) const {
  if (columns_.empty()) return items;
  std::vector<Json> picked(items.size(), Json::object());
  for (const std::string& name : columns_) {
    MUSTER_ASSIGN_OR_RETURN(Key key, FindKey("--columns", name));
    key.age = false;
    for (size_t i = 0; i < items.size(); ++i) picked[i][key.field] = ValueOf(items[i], key);
  }
  return picked;
}

}  // namespace muster::cli
