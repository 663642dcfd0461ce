// MetricsText: writes metrics in Prometheus' text format, version 0.0.4.
//
//   MetricsText text;
//   text.Gauge("pathways_hosts", "Hosts of the cluster.").Value({{"state", "up"}}, 4);
//   text.Counter("pathways_grants_total", "Computations granted to devices.").Value(17);
//   text.Take();
//
// Names follow https://prometheus.io/docs/practices/naming: base units, and `_total` at the end of counters.
//
// Invariant MT-1: each family is written once, with HELP and TYPE, and its values stand together. A second family of a name, a
// counter without `_total` or a bad name is a bug of ours (PW_CHECK).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace pw::http {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

class MetricsText {
 public:
  // Label values may be any text: they are escaped, and bytes that are not UTF-8 are replaced.
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  MetricsText& Gauge(absl::string_view name, absl::string_view help) { return Family(name, help, "gauge"); }
  MetricsText& Counter(absl::string_view name, absl::string_view help);
  // Add a value to the family that was opened last.
  MetricsText& Value(double value) { return Value({}, value); }
  MetricsText& Value(const Labels& labels, double value);
  std::string Take() { return std::move(text_); }

 private:
  MetricsText& Family(absl::string_view name, absl::string_view help, absl::string_view type);

  std::set<std::string> names_;
  std::string name_;
  std::string text_;
};

// Adds the metrics of every process: process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_max_fds,
// process_start_time_seconds. Omits values that this system does not report.
void AddProcessMetrics(MetricsText* text);

}  // namespace pw::http
