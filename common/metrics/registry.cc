#include "common/metrics/registry.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

#include "common/base/check.h"

namespace muster {
namespace {

constexpr size_t kMaxLabelValueBytes = 128;

size_t LabelCount(const MetricDef& metric) {
  size_t count = 0;
  while (count < metric.labels.size() && metric.labels[count] != nullptr) ++count;
  return count;
}

// Label values come from outside (worker names, device names): bounded, and one byte a character.
std::vector<std::string> CleanLabelValues(const std::vector<std::string>& values) {
  std::vector<std::string> clean = values;
  for (std::string& value : clean) {
    if (value.size() > kMaxLabelValueBytes) value.resize(kMaxLabelValueBytes);
    for (char& c : value) {
      if (c < ' ' || c > '~') c = '?';
    }
  }
  return clean;
}

}  // namespace

Registry::Registry(const std::vector<const MetricDef*>& metrics, const MetricDef& dropped,
                   Options options)
    : options_(options), dropped_(dropped) {
  MutexLock lock(mutex_);
  for (const MetricDef* metric : metrics) {
    auto [it, inserted] = families_.emplace(metric->name, std::make_pair(metric, Series()));
    MUSTER_CHECK(inserted, "two metrics have the same name");
    if (metric->type == MetricType::kCounter && LabelCount(*metric) == 0) {
      it->second.second[{}] = 0;
    }
  }
  SeriesLocked(dropped_);
}

Registry::Series& Registry::SeriesLocked(const MetricDef& metric) {
  auto it = families_.find(metric.name);
  MUSTER_CHECK(it != families_.end(), metric.name);
  return it->second.second;
}

double* Registry::FindOrAddLocked(const MetricDef& metric,
                                  const std::vector<std::string>& label_values) {
  MUSTER_CHECK(label_values.size() == LabelCount(metric), metric.name);
  Series& series = SeriesLocked(metric);
  std::vector<std::string> key = CleanLabelValues(label_values);
  auto it = series.find(key);
  if (it == series.end()) {
    if (series.size() >= options_.max_series_per_metric) {
      SeriesLocked(dropped_)[{}] += 1;
      return nullptr;
    }
    it = series.emplace(std::move(key), 0.0).first;
  }
  return &it->second;
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
  SeriesLocked(metric).erase(CleanLabelValues(label_values));
}

void Registry::Clear(const MetricDef& metric) {
  MutexLock lock(mutex_);
  SeriesLocked(metric).clear();
}

void Registry::RemoveMatching(
    std::initializer_list<std::pair<absl::string_view, absl::string_view>> labels) {
  MutexLock lock(mutex_);
  for (auto& [name, family] : families_) {
    const MetricDef& metric = *family.first;
    const size_t count = LabelCount(metric);
    std::vector<std::pair<size_t, absl::string_view>> wanted;
    for (const auto& [label, value] : labels) {
      for (size_t i = 0; i < count; ++i) {
        if (label == metric.labels[i]) wanted.emplace_back(i, value);
      }
    }
    if (wanted.size() != labels.size()) continue;
    std::erase_if(family.second, [&](const auto& entry) {
      for (const auto& [index, value] : wanted) {
        if (entry.first[index] != value) return false;
      }
      return true;
    });
  }
}

std::string Registry::Render() const {
  std::vector<prometheus::MetricFamily> collected;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, family] : families_) {
      const auto& [metric, series] = family;
      if (series.empty()) continue;
      const bool counter = metric->type == MetricType::kCounter;
      prometheus::MetricFamily& out = collected.emplace_back();
      out.name = name;
      out.help = metric->help;
      out.type = counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
      for (const auto& [values, value] : series) {
        prometheus::ClientMetric& point = out.metric.emplace_back();
        for (size_t i = 0; i < values.size(); ++i) {
          point.label.push_back({metric->labels[i], values[i]});
        }
        (counter ? point.counter.value : point.gauge.value) = value;
      }
    }
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, collected);
  return text.str();
}

}  // namespace muster
