// Curves and bars made of characters. Pure. `unicode` false gives ASCII, for terminals that know no
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::cli {

// One character a value, from low to high; more values than `width` are averaged, NaN and infinity
// show as blanks.
std::string Sparkline(const std::vector<double>& values, size_t width, bool unicode);

// "[##########          ]" with `width` columns inside; `fraction` is clamped to 0..1.
std::string ProgressBar(double fraction, size_t width, bool unicode);

struct PlotPoint {
  int64_t step = 0;
  double value = 0;
};

// A framed curve with its name, the range of values on the left and of steps below; lines of at
// most `width` columns. Non-finite values are left out and counted in the title; on a logarithmic
// scale those up to zero as well.
struct PlotStyle {
  size_t width = 80;
  size_t height = 12;
  bool unicode = true;
  bool logarithmic = false;
};
std::string Plot(absl::string_view name, const std::vector<PlotPoint>& points,
                 const PlotStyle& style);

}  // namespace muster::cli
