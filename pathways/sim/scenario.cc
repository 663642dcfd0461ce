#include "pathways/sim/scenario.h"

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"

namespace pw::sim {
namespace {

using Words = std::vector<std::string>;

absl::Status Bad(absl::string_view what, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", got '", got, "'"));
}

absl::Status ReadTime(const std::string& word, absl::Duration* out) {
  if (absl::ParseDuration(word, out) && *out >= absl::ZeroDuration()) return absl::OkStatus();
  return Bad("a time such as 5ms", word);
}

absl::Status ReadCount(const std::string& word, int* out) {
  if (absl::SimpleAtoi(word, out) && *out > 0) return absl::OkStatus();
  return Bad("a number above 0", word);
}

absl::Status ReadBytes(const std::string& word, int64_t* out) {
  absl::string_view digits = word;
  int shift = 0;
  if (absl::ConsumeSuffix(&digits, "KiB")) shift = 10;
  if (absl::ConsumeSuffix(&digits, "MiB")) shift = 20;
  if (absl::ConsumeSuffix(&digits, "GiB")) shift = 30;
  if (!absl::SimpleAtoi(digits, out) || *out < 0 || *out > (INT64_MAX >> shift)) return Bad("a size such as 64KiB", word);
  *out <<= shift;
  return absl::OkStatus();
}

absl::Status ReadRate(const std::string& word, double* out) {
  if (absl::SimpleAtod(word, out) && *out > 0) return absl::OkStatus();
  return Bad("bytes a second such as 1e9", word);
}

// "5ms" or "2ms..9ms".
absl::Status ReadWhen(const std::string& word, Fault* fault) {
  const std::pair<std::string, std::string> range = absl::StrSplit(word, absl::MaxSplits("..", 1));
  PW_RETURN_IF_ERROR(ReadTime(range.first, &fault->earliest));
  if (range.second.empty()) {
    fault->latest = fault->earliest;
    return absl::OkStatus();
  }
  PW_RETURN_IF_ERROR(ReadTime(range.second, &fault->latest));
  return fault->earliest <= fault->latest ? absl::OkStatus() : Bad("a range that does not go back", word);
}

absl::Status ReadFault(const Words& words, Scenario* out) {
  if (words.size() < 3) return absl::InvalidArgumentError("a fault says when and what: fault 5ms crash host=3");
  Fault fault;
  PW_RETURN_IF_ERROR(ReadWhen(words[1], &fault));
  fault.kind = words[2];
  const std::vector<std::string> kinds = {"crash", "power", "stop",       "slow",   "part", "delay",  "reorder",
                                          "start", "join",  "controller", "handover", "client", "cut",  "unlink", "sever"};
  if (std::find(kinds.begin(), kinds.end(), fault.kind) == kinds.end()) return Bad("a kind of fault", fault.kind);
  for (size_t i = 3; i < words.size(); ++i) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (kv.first == "host" && kv.second == "any") continue;
    if (kv.first == "host") {
      if (!absl::SimpleAtoi(kv.second, &fault.host) || fault.host < 0) return Bad("the number of a host", kv.second);
    } else if (kv.first == "for") {
      PW_RETURN_IF_ERROR(ReadTime(kv.second, &fault.duration));
    } else if (kv.first == "by") {
      PW_RETURN_IF_ERROR(ReadTime(kv.second, &fault.by));
    } else if (kv.first == "factor") {
      if (!absl::SimpleAtod(kv.second, &fault.factor) || fault.factor < 1) return Bad("a factor of 1 or more", kv.second);
    } else {
      return Bad("host=, for=, by= or factor=", words[i]);
    }
  }
  if (fault.host >= out->hosts)
    return absl::InvalidArgumentError(absl::StrCat("there is no host ", fault.host, "; state `hosts` before"));
  out->faults.push_back(std::move(fault));
  return absl::OkStatus();
}

absl::Status ReadClients(const Words& words, Scenario* out) {
  if (words.size() < 3) return absl::InvalidArgumentError("clients says how many and what they do: clients 4 chain length=32");
  WorkloadSpec spec;
  PW_RETURN_IF_ERROR(ReadCount(words[1], &spec.clients));
  spec.kind = words[2];
  const std::vector<std::string> kinds = {"chain", "pipeline", "mix", "training", "exchange"};
  if (std::find(kinds.begin(), kinds.end(), spec.kind) == kinds.end())
    return Bad("chain, pipeline, mix, training or exchange", spec.kind);
  for (size_t i = 3; i < words.size(); ++i) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (!absl::SimpleAtoi(kv.second, &spec.numbers[kv.first])) return Bad("name=number", words[i]);
  }
  out->workloads.push_back(std::move(spec));
  return absl::OkStatus();
}

absl::Status ReadPolicy(const std::string& word, Scenario* out) {
  out->gang.policy = word;
  return gang::MakePolicy(out->gang).status();
}

absl::Status ReadPlant(const Words& words, Scenario* out) {
  const std::map<std::string, Bug> bugs = {
      {"lose", Bug::kLoseFrame},      {"repeat", Bug::kRepeatFrame},     {"swap", Bug::kSwapFrames},
      {"damage", Bug::kDamageFrame},  {"hush", Bug::kHushEnd},           {"patience", Bug::kPatience},
      {"order", Bug::kWrongOrder},    {"free", Bug::kFreedEarly},        {"leak", Bug::kForgottenRelease},
      {"plan", Bug::kWrongPlan},      {"donation", Bug::kWrongDonation}, {"progress", Bug::kForgottenCompletion},
      {"resume", Bug::kSkippedFrame}, {"forget", Bug::kForgottenNames},  {"rename", Bug::kWrongName},    {"short", Bug::kShortReport}};
  const auto bug = words.size() == 3 ? bugs.find(words[1]) : bugs.end();
  int one_in = 0;
  if (bug == bugs.end() || !ReadCount(words[2], &one_in).ok())
    return absl::InvalidArgumentError("plant says what and how often: plant swap 200");
  out->bug = bug->second;
  out->bug_one_in = static_cast<uint64_t>(one_in);
  return absl::OkStatus();
}

// Reads a statement with two values: inside an island and between islands.
absl::Status ReadLatency(const Words& words, Scenario* out) {
  if (words.size() != 3) return absl::InvalidArgumentError("two values: inside an island, and between islands");
  PW_RETURN_IF_ERROR(ReadTime(words[1], &out->network.inside.latency));
  return ReadTime(words[2], &out->network.between.latency);
}
absl::Status ReadBandwidth(const Words& words, Scenario* out) {
  if (words.size() != 3) return absl::InvalidArgumentError("two values: inside an island, and between islands");
  PW_RETURN_IF_ERROR(ReadRate(words[1], &out->network.inside.bytes_per_second));
  return ReadRate(words[2], &out->network.between.bytes_per_second);
}

absl::Status ReadDispatch(const std::string& word, Scenario* out) {
  if (word != "parallel" && word != "sequential") return Bad("parallel or sequential", word);
  out->sequential = word == "sequential";
  return absl::OkStatus();
}

absl::Status ReadStatement(const Words& words, Scenario* out) {
  const std::string& name = words[0];
  if (name == "fault") return ReadFault(words, out);
  if (name == "clients") return ReadClients(words, out);
  if (name == "plant") return ReadPlant(words, out);
  if (name == "latency") return ReadLatency(words, out);
  if (name == "bandwidth") return ReadBandwidth(words, out);
  const std::map<std::string, std::function<absl::Status(const std::string&)>> simple = {
      {"hosts", [out](const std::string& w) { return ReadCount(w, &out->hosts); }},
      {"hosts_per_island", [out](const std::string& w) { return ReadCount(w, &out->hosts_per_island); }},
      {"devices", [out](const std::string& w) { return ReadCount(w, &out->devices); }},
      {"device_memory", [out](const std::string& w) { return ReadBytes(w, &out->device_memory_bytes); }},
      {"policy", [out](const std::string& w) { return ReadPolicy(w, out); }},
      {"dispatch", [out](const std::string& w) { return ReadDispatch(w, out); }},
      {"heartbeat", [out](const std::string& w) { return ReadTime(w, &out->heartbeat); }},
      {"task_time", [out](const std::string& w) { return ReadTime(w, &out->task_time); }},
      {"limit", [out](const std::string& w) { return ReadTime(w, &out->limit); }},
      {"restores", [out](const std::string& w) { return ReadCount(w, &out->restores); }},
      {"repeats", [out](const std::string& w) { return ReadCount(w, &out->repeats); }},
  };
  const auto it = simple.find(name);
  if (it == simple.end()) return Bad("a statement (hosts, devices, clients, fault, ...)", name);
  if (words.size() != 2) return absl::InvalidArgumentError(absl::StrCat("'", name, "' takes one value"));
  return it->second(words[1]);
}

}  // namespace

absl::StatusOr<Scenario> ParseScenario(const std::string& name, absl::string_view text) {
  Scenario scenario;
  scenario.name = name;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view statement = line.substr(0, line.find('#'));
    const Words words = absl::StrSplit(statement, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (absl::Status status = ReadStatement(words, &scenario); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message()));
    }
  }
  if (scenario.workloads.empty())
    return absl::InvalidArgumentError(absl::StrCat(name, ": nobody does anything; add a `clients` line"));
  return scenario;
}

bool CutsClients(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& fault) { return fault.kind == "cut"; });
}

bool SilencesHosts(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& fault) { return fault.kind == "power"; });
}

bool KillsControllers(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(),
                     [](const Fault& fault) { return fault.kind == "controller" || fault.kind == "handover"; });
}

}  // namespace pw::sim
