#include "cli/output/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 8> kAsciiBlocks = {"_", ".", "-", "~", "=", "+", "*", "#"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // Where v lies: 0 at low, 1 at high. A flat line lies in the middle.
  double Place(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
};

// Means of at most `width` equal groups; NaN where a group has no finite value.
std::vector<double> Grouped(const std::vector<double>& values, size_t width) {
  const size_t groups = std::min(values.size(), width);
  std::vector<double> means;
  for (size_t g = 0; g < groups; ++g) {
    double sum = 0;
    int count = 0;
    for (size_t i = g * values.size() / groups; i < (g + 1) * values.size() / groups; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      ++count;
    }
    means.push_back(count == 0 ? std::nan("") : sum / count);
  }
  return means;
}

// For each plot column the mean of the values whose steps fall into it, carried on from the left
// where there is none.
std::vector<std::optional<double>> Columns(const std::vector<PlotPoint>& points, size_t columns) {
  const auto [first, last] = std::minmax_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  const double span = std::max<double>(1, static_cast<double>(last->step - first->step));
  std::vector<double> sums(columns);
  std::vector<int> counts(columns);
  for (const PlotPoint& point : points) {
    const double place = static_cast<double>(point.step - first->step) / span;
    const auto column = static_cast<size_t>(std::lround(place * static_cast<double>(columns - 1)));
    sums[column] += point.value;
    ++counts[column];
  }
  std::vector<std::optional<double>> means(columns);
  for (size_t i = 0; i < columns; ++i) {
    if (counts[i] > 0) means[i] = sums[i] / counts[i];
  }
  return means;
}

}  // namespace

std::string Sparkline(const std::vector<double>& values, size_t width, bool unicode) {
  const std::vector<double> means = Grouped(values, width);
  Range range;
  for (const double v : means) {
    if (std::isfinite(v)) range.Add(v);
  }
  std::string line;
  for (const double v : means) {
    if (!std::isfinite(v)) {
      line += " ";
      continue;
    }
    const auto level = static_cast<size_t>(std::lround(range.Place(v) * (kBlocks.size() - 1)));
    line += (unicode ? kBlocks : kAsciiBlocks)[level];
  }
  return line;
}

std::string ProgressBar(double fraction, size_t width, bool unicode) {
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const auto full = static_cast<size_t>(clamped * static_cast<double>(width));
  std::string bar = "[";
  for (size_t i = 0; i < width; ++i)
    bar += i < full ? (unicode ? "█" : "#") : (unicode ? "░" : " ");
  return bar + "]";
}

std::string Plot(absl::string_view name, const std::vector<PlotPoint>& points,
                 const PlotStyle& style) {
  constexpr size_t kLabel = 9;
  constexpr size_t kLeastColumns = 10;
  const bool unicode = style.unicode;
  std::vector<PlotPoint> finite;  // values as they are drawn
  size_t not_finite = 0;
  size_t not_positive = 0;
  Range range;
  for (const PlotPoint& point : points) {
    if (!std::isfinite(point.value)) {
      ++not_finite;
    } else if (style.logarithmic && point.value <= 0) {
      ++not_positive;
    } else {
      finite.push_back({point.step, style.logarithmic ? std::log10(point.value) : point.value});
      range.Add(finite.back().value);
    }
  }
  const auto shown = [&](double value) {
    return Number(style.logarithmic ? std::pow(10, value) : value);
  };
  std::string text = absl::StrCat(name, ": ", points.size(), " points");
  if (not_finite > 0) absl::StrAppend(&text, ", ", not_finite, " of them not finite");
  if (style.logarithmic) {
    text += ", logarithmic";
    if (not_positive > 0) absl::StrAppend(&text, ", ", not_positive, " not above zero left out");
  }
  text += "\n";
  if (finite.empty()) return text;

  const size_t columns = std::max(kLeastColumns + kLabel + 2, style.width) - kLabel - 2;
  const size_t height = std::max<size_t>(style.height, 2);
  const std::vector<std::optional<double>> means = Columns(finite, columns);
  const auto row_of = [&](double value) {
    return height - 1 -
           static_cast<size_t>(std::lround(range.Place(value) * static_cast<double>(height - 1)));
  };
  const size_t low_row = row_of(range.low);
  const size_t high_row = row_of(range.high);
  std::vector<std::vector<bool>> grid(height, std::vector<bool>(columns));
  for (size_t x = 0; x < columns; ++x) {
    if (means[x].has_value()) grid[row_of(*means[x])][x] = true;
  }
  for (size_t y = 0; y < height; ++y) {
    std::string label;
    if (y == low_row) {
      label = shown(range.low);
    } else if (y == high_row) {
      label = shown(range.high);
    }
    std::string row =
        absl::StrFormat("%*s %s", static_cast<int>(kLabel), label, unicode ? "│" : "|");
    for (size_t x = 0; x < columns; ++x) row += grid[y][x] ? (unicode ? "•" : "*") : " ";
    row.erase(row.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, row, "\n");
  }
  std::string axis(kLabel + 1, ' ');
  axis += unicode ? "└" : "+";
  for (size_t x = 0; x < columns; ++x) axis += unicode ? "─" : "-";
  const auto by_step = [](const auto& a, const auto& b) { return a.step < b.step; };
  const std::string left =
      absl::StrCat("step ", std::min_element(finite.begin(), finite.end(), by_step)->step);
  const std::string right =
      absl::StrCat(std::max_element(finite.begin(), finite.end(), by_step)->step);
  const size_t used = left.size() + right.size();
  const std::string gap(columns > used ? columns - used : 1, ' ');
  absl::StrAppend(&text, axis, "\n", std::string(kLabel + 2, ' '), left, gap, right, "\n");
  return text;
}

}  // namespace muster::cli
