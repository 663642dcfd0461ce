// pathways-sim: runs scenarios in simulated time. Wiring only; sim/ has the substance.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/process/flags.h"
#include "pathways/sim/run.h"
#include "pathways/sim/scenario.h"

namespace {

struct Options {
  int64_t seed = 1;
  int64_t seeds = 1;
  int hosts = 0;
  bool json = false;
};

// Returns the last part of a path, without its ending.
std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.rfind('.'));
}

absl::StatusOr<pw::sim::Scenario> Read(const std::string& path, int hosts) {
  std::ifstream file(path);
  if (!file)
    return absl::NotFoundError(absl::StrCat("cannot read ", path, "; name a scenario file (see pathways/sim/scenario.h)"));
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<pw::sim::Scenario> scenario = pw::sim::ParseScenario(NameOf(path), text.str());
  if (scenario.ok() && hosts > 0) scenario->hosts = hosts;
  return scenario;
}

void Print(const pw::sim::Report& report, bool json) {
  if (json) {
    std::cout << pw::sim::ToJson(report) << "\n";
    return;
  }
  std::printf(
      "%s seed %llu: %.3f s simulated, %llu events, %llu requests, %llu reads (%llu of lost hosts), %zu violations, hash "
      "%016llx\n",
      report.scenario.c_str(), static_cast<unsigned long long>(report.seed), report.simulated_seconds,
      static_cast<unsigned long long>(report.events), static_cast<unsigned long long>(report.requests),
      static_cast<unsigned long long>(report.reads), static_cast<unsigned long long>(report.errors), report.violations.size(),
      static_cast<unsigned long long>(report.hash));
  for (const std::string& violation : report.violations) std::printf("  %s\n", violation.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  pw::Flags flags(
      "pathways-sim",
      "Runs scenarios (files) against a whole cluster in simulated time: the real controller, front end and workers, with "
      "simulated devices, network and clock. The same seed gives the same run; exit status 1 if anything happened that must "
      "not.");
  flags.Add("seed", &options.seed, "N", "the first seed");
  flags.Add("seeds", &options.seeds, "N", "number of seeds, run one after another");
  flags.Add("hosts", &options.hosts, "N", "number of hosts; 0: the scenario's");
  flags.Add("json", &options.json, "print one JSON object for each run, on a line of its own");
  if (std::optional<int> exit_code = flags.ParseMain(argc, argv)) return *exit_code;
  if (flags.positional().empty()) {
    std::fprintf(stderr, "pathways-sim: name at least one scenario file; pathways/sim/scenarios has some\n");
    return 2;
  }
  bool good = true;
  for (const std::string& path : flags.positional()) {
    const absl::StatusOr<pw::sim::Scenario> scenario = Read(path, options.hosts);
    if (!scenario.ok()) {
      std::fprintf(stderr, "pathways-sim: %s\n", std::string(scenario.status().message()).c_str());
      return 2;
    }
    for (int64_t s = 0; s < options.seeds; ++s) {
      const pw::sim::Report report = pw::sim::RunScenario(*scenario, static_cast<uint64_t>(options.seed + s));
      Print(report, options.json);
      good = good && report.violations.empty();
    }
  }
  return good ? 0 : 1;
}
