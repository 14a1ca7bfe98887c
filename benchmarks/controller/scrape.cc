// M2 of docs/benchmarks.md: one scrape of a page of ours against one of prometheus-cpp's own
// Exposer that serves the same series. The rival's registry is filled from the page itself, so that
// names, labels and values are equal; then both are scraped in turn over HTTP by the same client.
// Prints one JSON line.
#include <httplib.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "benchmarks/controller/measure.h"

namespace muster::benchmarks {
namespace {

// name{label="value",...}: the values of our pages have no quotes in them.
std::map<std::string, std::string> LabelsOf(absl::string_view text) {
  std::map<std::string, std::string> labels;
  for (absl::string_view pair : absl::StrSplit(text, "\",", absl::SkipEmpty())) {
    const std::vector<std::string> halves = absl::StrSplit(pair, absl::MaxSplits("=\"", 1));
    if (halves.size() != 2) continue;
    labels[halves[0]] = std::string(absl::StripSuffix(halves[1], "\""));
  }
  return labels;
}

// Returns how many series there are.
size_t FillFrom(const std::string& page, prometheus::Registry& registry) {
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> families;
  size_t series = 0;
  for (absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    absl::string_view id = line.substr(0, space);
    double value = 0;
    if (!absl::SimpleAtod(line.substr(space + 1), &value)) continue;
    const size_t brace = id.find('{');
    const std::string name(id.substr(0, brace));
    std::map<std::string, std::string> labels;
    if (brace != absl::string_view::npos) {
      labels = LabelsOf(id.substr(brace + 1, id.size() - brace - 2));
    }
    auto [family, is_new] = families.try_emplace(name, nullptr);
    if (is_new) {
      family->second =
          &prometheus::BuildGauge().Name(name).Help("As on the other page.").Register(registry);
    }
    family->second->Add(labels).Set(value);
    ++series;
  }
  return series;
}

std::string Get(httplib::Client& client) {
  const auto answer = client.Get("/metrics");
  if (!answer || answer->status != 200) throw std::runtime_error("a scrape failed");
  return answer->body;
}

void Run(const std::string& address, int rounds) {
  httplib::Client ours("http://" + address);
  const std::string page = Get(ours);
  auto registry = std::make_shared<prometheus::Registry>();
  const size_t series = FillFrom(page, *registry);
  prometheus::Exposer exposer("127.0.0.1:0", 1);
  exposer.RegisterCollectable(registry);
  httplib::Client rival(absl::StrCat("http://127.0.0.1:", exposer.GetListeningPorts()[0]));
  const size_t rival_bytes = Get(rival).size();
  Latencies ours_times;
  Latencies rival_times;
  for (int i = 0; i < rounds; ++i) {
    double began = SteadySeconds();
    Get(ours);
    ours_times.Add(SteadySeconds() - began);
    began = SteadySeconds();
    Get(rival);
    rival_times.Add(SteadySeconds() - began);
  }
  PrintLine({{"load", "scrape"},
             {"series", series},
             {"bytes", page.size()},
             {"rival_bytes", rival_bytes},
             {"ours", ours_times.Summary()},
             {"prometheus_cpp", rival_times.Summary()}});
}

}  // namespace
}  // namespace muster::benchmarks

int main(int argc, char** argv) {
  CLI::App app(
      "Scrapes a page of ours and prometheus-cpp's Exposer with the same series, in turn.");
  std::string address;
  int rounds = 50;
  app.add_option("address", address, "host:port of the page")->required();
  app.add_option("--rounds", rounds)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    muster::benchmarks::Run(address, rounds);
  } catch (const std::exception& error) {
    std::cerr << "muster-bench-scrape: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
