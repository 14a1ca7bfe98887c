#include "common/metrics/metric_families.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace muster {
namespace {

constexpr size_t kMaxLabelValueBytes = 128;

template <typename Kept>
void RemoveFrom(Kept& kept, const prometheus::Labels& labels) {
  for (auto& [metric, of] : kept) {
    std::erase_if(of.series, [&, family = of.family](const auto& one) {
      const auto& [its, series] = one;
      if (!std::includes(its.begin(), its.end(), labels.begin(), labels.end())) return false;
      family->Remove(series);
      return true;
    });
  }
}

template <typename Kept>
void RemoveOne(Kept& kept, const MetricDef& metric, const prometheus::Labels& labels) {
  const auto of = kept.find(&metric);
  if (of == kept.end()) return;
  const auto known = of->second.series.find(labels);
  if (known == of->second.series.end()) return;
  of->second.family->Remove(known->second);
  of->second.series.erase(known);
}

prometheus::Labels LabelMapOf(const MetricDef& metric, const std::vector<std::string>& values) {
  prometheus::Labels labels;
  for (auto& [name, value] : LabelsOf(metric, values)) labels[name] = std::move(value);
  return labels;
}

}  // namespace

std::vector<prometheus::ClientMetric::Label> LabelsOf(const MetricDef& metric,
                                                      const std::vector<std::string>& values) {
  const auto unused = std::count(metric.labels.begin(), metric.labels.end(), nullptr);
  MUSTER_CHECK(values.size() + static_cast<size_t>(unused) == metric.labels.size(), metric.name);
  std::vector<prometheus::ClientMetric::Label> labels;
  labels.reserve(values.size());
  for (const std::string& value : values) {
    labels.push_back({metric.labels[labels.size()], value.substr(0, kMaxLabelValueBytes)});
    std::replace_if(
        labels.back().value.begin(), labels.back().value.end(),
        [](char c) { return c < ' ' || c > '~'; }, '?');
  }
  return labels;
}

MetricFamilies::MetricFamilies(const MetricDef& dropped)
    : dropped_(prometheus::BuildCounter()
                   .Name(dropped.name)
                   .Help(dropped.help)
                   .Register(registry_)
                   .Add({})) {}

template <typename T, typename Build>
T* MetricFamilies::FindOrAddLocked(KeptByMetric<T>& kept, Build build, const MetricDef& metric,
                                   const std::vector<std::string>& label_values) {
  const prometheus::Labels labels = LabelMapOf(metric, label_values);
  Kept<T>& of = kept[&metric];
  const auto known = of.series.find(labels);
  if (known != of.series.end()) return known->second;
  if (of.series.size() >= kMaxSeriesPerMetric) {
    dropped_.Increment();
    return nullptr;
  }
  if (of.family == nullptr) {
    of.family = &build().Name(metric.name).Help(metric.help).Register(registry_);
  }
  return of.series[labels] = &of.family->Add(labels);
}

void MetricFamilies::Set(const MetricDef& metric, const std::vector<std::string>& label_values,
                         double value) {
  MutexLock lock(mutex_);
  if (metric.type == MetricType::kGauge) {
    auto* gauge = FindOrAddLocked(gauges_, prometheus::BuildGauge, metric, label_values);
    if (gauge != nullptr) gauge->Set(value);
  } else {
    auto* counter = FindOrAddLocked(counters_, prometheus::BuildCounter, metric, label_values);
    if (counter != nullptr) counter->Increment(value - counter->Value());
  }
}

void MetricFamilies::Add(const MetricDef& metric, const std::vector<std::string>& label_values,
                         double by) {
  MutexLock lock(mutex_);
  if (metric.type == MetricType::kGauge) {
    auto* gauge = FindOrAddLocked(gauges_, prometheus::BuildGauge, metric, label_values);
    if (gauge != nullptr) gauge->Increment(by);
  } else {
    auto* counter = FindOrAddLocked(counters_, prometheus::BuildCounter, metric, label_values);
    if (counter != nullptr) counter->Increment(by);
  }
}

void MetricFamilies::Remove(const MetricDef& metric, const std::vector<std::string>& label_values) {
  const prometheus::Labels labels = LabelMapOf(metric, label_values);
  MutexLock lock(mutex_);
  if (metric.type == MetricType::kGauge) {
    RemoveOne(gauges_, metric, labels);
  } else {
    RemoveOne(counters_, metric, labels);
  }
}

void MetricFamilies::RemoveMatching(const prometheus::Labels& labels) {
  MutexLock lock(mutex_);
  RemoveFrom(gauges_, labels);
  RemoveFrom(counters_, labels);
}

}  // namespace muster
