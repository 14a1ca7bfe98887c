// The current values of one daemon's metrics, and their text for Prometheus. Values live here by
// label values, so that all series of a job or a rank can go away at once. Each series keeps its
// name and labels as they stand on the page: a scrape appends them and formats the numbers.
//
// Thread-safe: any thread may update or render. Nothing here blocks on I/O.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_names.h"

namespace muster {

class Registry {
 public:
  struct Options {
    // Label sets that one metric may have at a time. Updates that would add another are dropped and
    // counted.
    size_t max_series_per_metric = 4096;
  };

  // Serves exactly `metrics` (ControllerMetrics() or WorkerMetrics()). `dropped`, one of them, is
  // an unlabelled counter that counts refused updates. Counters without labels start at 0.
  Registry(const std::vector<const MetricDef*>& metrics, const MetricDef& dropped)
      : Registry(metrics, dropped, Options()) {}
  Registry(const std::vector<const MetricDef*>& metrics, const MetricDef& dropped, Options options);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Sets the series with these label values, in the order of metric.labels. A counter is set to an
  // absolute total that its owner keeps elsewhere. Label values are cut to 128 bytes; bytes outside
  // printable ASCII become '?'.
  void Set(const MetricDef& metric, const std::vector<std::string>& label_values, double value)
      MUSTER_EXCLUDES(mutex_);
  // Adds to the series, which starts at 0. For counters `by` is never negative.
  void Add(const MetricDef& metric, const std::vector<std::string>& label_values, double by = 1)
      MUSTER_EXCLUDES(mutex_);
  void Set(const MetricDef& metric, double value) { Set(metric, {}, value); }
  void Add(const MetricDef& metric, double by = 1) { Add(metric, {}, by); }

  // Removes one series, or nothing when there is none such.
  void Remove(const MetricDef& metric, const std::vector<std::string>& label_values)
      MUSTER_EXCLUDES(mutex_);
  // Removes every series of every metric that carries all of these labels, e.g. {{"job_id", "42"},
  // {"rank", "0"}}.
  void RemoveMatching(std::initializer_list<std::pair<absl::string_view, absl::string_view>> labels)
      MUSTER_EXCLUDES(mutex_);
  // Removes all series of one metric: for gauges that are counted anew at each scrape. Those that
  // are set again before the next Render keep their text.
  void Clear(const MetricDef& metric) MUSTER_EXCLUDES(mutex_);

  // Prometheus text format 0.0.4; metrics without series are left out.
  std::string Render() const MUSTER_EXCLUDES(mutex_);

 private:
  struct Series {
    std::vector<std::string> values;  // of the labels
    std::string text;                 // `name{label="value",...} `
    double value = 0;
    bool shown = true;  // false: cleared, and not set again yet
  };
  // The series of one metric, in the order of their first values.
  struct Family {
    const MetricDef* metric = nullptr;
    std::string head;  // the # HELP and # TYPE lines
    std::vector<Series> series;
    absl::flat_hash_map<std::string, size_t> index;  // into `series`, by their joined values
  };

  double* FindOrAddLocked(const MetricDef& metric, const std::vector<std::string>& label_values)
      MUSTER_REQUIRES(mutex_);
  Family& FamilyLocked(const MetricDef& metric) MUSTER_REQUIRES(mutex_);
  // Drops the series that `goes` tells.
  template <typename Goes>
  static void EraseIf(Family& family, Goes goes);

  const Options options_;
  const MetricDef& dropped_;
  mutable Mutex mutex_;
  // By name, so that two definitions of one name cannot both be served.
  mutable std::map<std::string, Family> families_ MUSTER_GUARDED_BY(mutex_);
  absl::flat_hash_map<const MetricDef*, Family*> by_metric_ MUSTER_GUARDED_BY(mutex_);
  mutable size_t rendered_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;  // of the last page
  std::string key_ MUSTER_GUARDED_BY(mutex_);  // of the look-up in hand; kept for its memory
};

// The media type of Render().
inline constexpr char kPrometheusContentType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace muster
