// The metrics that a daemon updates as events happen, in prometheus-cpp's families: by the
// definitions of metric_names.h, and with bounds, since label values come from outside.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/metric_names.h"

namespace muster {

// The labels of a series with these values, in the order of metric.labels. Values are cut to 128
// bytes; bytes outside printable ASCII become '?'.
std::vector<prometheus::ClientMetric::Label> LabelsOf(const MetricDef& metric,
                                                      const std::vector<std::string>& values);

// Thread-safe. Nothing here blocks on I/O.
class MetricFamilies final : public prometheus::Collectable {
 public:
  // Label sets that one metric may have at a time. Updates that would add another are dropped and
  // counted.
  static constexpr size_t kMaxSeriesPerMetric = 4096;

  // `dropped` is an unlabelled counter of the dropped updates.
  explicit MetricFamilies(const MetricDef& dropped);

  // Sets the series with these label values. A counter is set to an absolute total that its owner
  // keeps elsewhere, and never falls.
  void Set(const MetricDef& metric, const std::vector<std::string>& label_values, double value)
      MUSTER_EXCLUDES(mutex_);
  // Adds to the series, which starts at 0.
  void Add(const MetricDef& metric, const std::vector<std::string>& label_values, double by = 1)
      MUSTER_EXCLUDES(mutex_);
  void Set(const MetricDef& metric, double value) { Set(metric, {}, value); }
  void Add(const MetricDef& metric, double by = 1) { Add(metric, {}, by); }

  // Removes the series with these label values, if there is one; others of the metric stay.
  void Remove(const MetricDef& metric, const std::vector<std::string>& label_values)
      MUSTER_EXCLUDES(mutex_);
  // Removes every series of every metric that carries all of these labels, e.g. {{"job_id", "42"},
  // {"rank", "0"}}.
  void RemoveMatching(const prometheus::Labels& labels) MUSTER_EXCLUDES(mutex_);

  std::vector<prometheus::MetricFamily> Collect() const override { return registry_.Collect(); }

 private:
  template <typename T>
  struct Kept {
    prometheus::Family<T>* family = nullptr;
    std::map<prometheus::Labels, T*> series;
  };
  template <typename T>
  using KeptByMetric = std::map<const MetricDef*, Kept<T>>;

  template <typename T, typename Build>
  T* FindOrAddLocked(KeptByMetric<T>& kept, Build build, const MetricDef& metric,
                     const std::vector<std::string>& label_values) MUSTER_REQUIRES(mutex_);

  prometheus::Registry registry_;
  prometheus::Counter& dropped_;
  Mutex mutex_;
  KeptByMetric<prometheus::Gauge> gauges_ MUSTER_GUARDED_BY(mutex_);
  KeptByMetric<prometheus::Counter> counters_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
