#include "common/metrics/registry.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace muster {
namespace {

constexpr size_t kMaxLabelValueBytes = 128;
constexpr char kBetweenValues = '\0';  // never part of a cleaned value

size_t LabelCount(const MetricDef& metric) {
  size_t count = 0;
  while (count < metric.labels.size() && metric.labels[count] != nullptr) ++count;
  return count;
}

// Label values come from outside (worker names, device names): bounded, and one byte a character.
void AppendClean(absl::string_view value, std::string& out) {
  for (const char c : value.substr(0, kMaxLabelValueBytes)) {
    out.push_back(c < ' ' || c > '~' ? '?' : c);
  }
}

std::vector<std::string> CleanLabelValues(const std::vector<std::string>& values) {
  std::vector<std::string> clean;
  for (const std::string& value : values) AppendClean(value, clean.emplace_back());
  return clean;
}

void JoinClean(const std::vector<std::string>& values, std::string& key) {
  key.clear();
  for (const std::string& value : values) {
    AppendClean(value, key);
    key.push_back(kBetweenValues);
  }
}

void AppendEscaped(absl::string_view value, std::string& out) {
  for (const char c : value) {
    if (c == '\\' || c == '"') out.push_back('\\');
    out.push_back(c);
  }
}

std::string SeriesText(const MetricDef& metric, const std::vector<std::string>& values) {
  std::string text = metric.name;
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "{" : ",", metric.labels[i], "=\"");
    AppendEscaped(values[i], text);
    text.push_back('"');
  }
  if (!values.empty()) text.push_back('}');
  text.push_back(' ');
  return text;
}

// As Prometheus reads it: the shortest digits that give the same number back.
void AppendNumber(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    char digits[32];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
    out.append(digits, end.ptr);
  }
}

}  // namespace

Registry::Registry(const std::vector<const MetricDef*>& metrics, const MetricDef& dropped,
                   Options options)
    : options_(options), dropped_(dropped) {
  MutexLock lock(mutex_);
  for (const MetricDef* metric : metrics) {
    const auto [it, inserted] = families_.try_emplace(metric->name);
    MUSTER_CHECK(inserted, "two metrics have the same name");
    const bool counter = metric->type == MetricType::kCounter;
    it->second.metric = metric;
    it->second.head = absl::StrCat("# HELP ", metric->name, " ", metric->help, "\n# TYPE ",
                                   metric->name, counter ? " counter\n" : " gauge\n");
    by_metric_[metric] = &it->second;
    if (counter && LabelCount(*metric) == 0) *FindOrAddLocked(*metric, {}) = 0;
  }
  FamilyLocked(dropped_);
}

Registry::Family& Registry::FamilyLocked(const MetricDef& metric) {
  const auto known = by_metric_.find(&metric);
  if (known != by_metric_.end()) return *known->second;
  // The same metric from another translation unit.
  const auto it = families_.find(metric.name);
  MUSTER_CHECK(it != families_.end(), metric.name);
  by_metric_[&metric] = &it->second;
  return it->second;
}

template <typename Goes>
void Registry::EraseIf(Family& family, Goes goes) {
  const size_t gone = std::erase_if(family.series, goes);
  if (gone == 0) return;
  family.index.clear();
  std::string key;
  for (size_t i = 0; i < family.series.size(); ++i) {
    JoinClean(family.series[i].values, key);
    family.index[key] = i;
  }
}

double* Registry::FindOrAddLocked(const MetricDef& metric,
                                  const std::vector<std::string>& label_values) {
  MUSTER_CHECK(label_values.size() == LabelCount(metric), metric.name);
  Family& family = FamilyLocked(metric);
  JoinClean(label_values, key_);
  auto it = family.index.find(key_);
  if (it == family.index.end()) {
    if (family.series.size() >= options_.max_series_per_metric) {
      EraseIf(family, [](const Series& series) { return !series.shown; });
    }
    if (family.series.size() >= options_.max_series_per_metric) {
      *FindOrAddLocked(dropped_, {}) += 1;
      return nullptr;
    }
    Series& added = family.series.emplace_back();
    added.values = CleanLabelValues(label_values);
    added.text = SeriesText(metric, added.values);
    it = family.index.emplace(key_, family.series.size() - 1).first;
  }
  Series& series = family.series[it->second];
  if (!series.shown) {
    series.shown = true;
    series.value = 0;
  }
  return &series.value;
}

void Registry::Set(const MetricDef& metric, const std::vector<std::string>& label_values,
                   double value) {
  MutexLock lock(mutex_);
  if (double* slot = FindOrAddLocked(metric, label_values)) *slot = value;
}

void Registry::Add(const MetricDef& metric, const std::vector<std::string>& label_values,
                   double by) {
  MUSTER_CHECK(metric.type == MetricType::kGauge || by >= 0, "a counter never falls");
  MutexLock lock(mutex_);
  if (double* slot = FindOrAddLocked(metric, label_values)) *slot += by;
}

void Registry::Remove(const MetricDef& metric, const std::vector<std::string>& label_values) {
  MutexLock lock(mutex_);
  EraseIf(FamilyLocked(metric), [values = CleanLabelValues(label_values)](const Series& series) {
    return series.values == values;
  });
}

void Registry::Clear(const MetricDef& metric) {
  MutexLock lock(mutex_);
  for (Series& series : FamilyLocked(metric).series) series.shown = false;
}

void Registry::RemoveMatching(
    std::initializer_list<std::pair<absl::string_view, absl::string_view>> labels) {
  MutexLock lock(mutex_);
  for (auto& [name, family] : families_) {
    const size_t count = LabelCount(*family.metric);
    std::vector<std::pair<size_t, absl::string_view>> wanted;
    for (const auto& [label, value] : labels) {
      for (size_t i = 0; i < count; ++i) {
        if (label == family.metric->labels[i]) wanted.emplace_back(i, value);
      }
    }
    if (wanted.size() != labels.size()) continue;
    EraseIf(family, [&wanted](const Series& series) {
      for (const auto& [index, value] : wanted) {
        if (series.values[index] != value) return false;
      }
      return true;
    });
  }
}

std::string Registry::Render() const {
  std::string page;
  MutexLock lock(mutex_);
  page.reserve(rendered_bytes_ + rendered_bytes_ / 8);
  for (auto& [name, family] : families_) {
    // What was cleared and has not come back does not come back soon.
    EraseIf(family, [](const Series& series) { return !series.shown; });
    if (family.series.empty()) continue;
    page += family.head;
    for (const Series& series : family.series) {
      page += series.text;
      AppendNumber(series.value, page);
      page.push_back('\n');
    }
  }
  rendered_bytes_ = page.size();
  return page;
}

}  // namespace muster
