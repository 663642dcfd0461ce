#include "pathways/device/pjrt/client_option.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pw::device::pjrt {
namespace {

// The worker sets them from its own flags and from its place in the cluster.
constexpr absl::string_view kOwn[] = {"node_id", "num_nodes", "peer_device_count", "network_address", "island", "world"};

const char* NameOf(OptionKind kind) {
  switch (kind) {
    case OptionKind::kText:
      return "TEXT";
    case OptionKind::kNumber:
      return "INTEGER";
    case OptionKind::kBool:
      return "true|false";
    case OptionKind::kFraction:
      return "NUMBER";
    case OptionKind::kNumbers:
      return "INTEGER,INTEGER,...";
  }
  return "TEXT";
}

bool ReadBool(absl::string_view text, bool* value) {
  *value = text == "true" || text == "1";
  return *value || text == "false" || text == "0";
}

bool ReadNumbers(absl::string_view text, std::vector<int64_t>* numbers) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(part, &numbers->emplace_back())) return false;
  }
  return true;
}

// Writes the value to the option. Returns false if the text is not of this kind.
bool Read(OptionKind kind, absl::string_view text, ClientOption* option) {
  switch (kind) {
    case OptionKind::kText:
      option->value = std::string(text);
      return true;
    case OptionKind::kNumber:
      return absl::SimpleAtoi(text, &option->value.emplace<int64_t>());
    case OptionKind::kBool:
      return ReadBool(text, &option->value.emplace<bool>());
    case OptionKind::kFraction:
      return absl::SimpleAtof(text, &option->value.emplace<float>());
    case OptionKind::kNumbers:
      return ReadNumbers(text, &option->value.emplace<std::vector<int64_t>>());
  }
  return false;
}

// Of an option that is not known. A list of one number cannot be told from a number.
OptionKind Guess(absl::string_view text) {
  ClientOption tried;
  for (OptionKind kind : {OptionKind::kNumber, OptionKind::kFraction, OptionKind::kNumbers}) {
    if (Read(kind, text, &tried)) return kind;
  }
  return text == "true" || text == "false" ? OptionKind::kBool : OptionKind::kText;
}

}  // namespace

bool IsOurCpuPlugin(absl::string_view plugin) { return absl::StrContains(plugin, "libpjrt_cpu.so"); }

const std::vector<KnownOption>& KnownOptions(absl::string_view plugin) {
  static const std::vector<KnownOption> cpu = {
      {"memory_limit_bytes", OptionKind::kNumber, "memory of each device, which the device reports as its own; 0: no limit"},
      {"max_inflight_computations_per_device", OptionKind::kNumber, "computations that may be enqueued on a device"},
      {"asynchronous", OptionKind::kBool, "false: a launch returns when the computation has ended"},
  };
  static const std::vector<KnownOption> gpu = {
      {"memory_fraction", OptionKind::kFraction,
       "the part of each GPU's memory that arrays and programs may take: 0.75 unless given"},
      {"preallocate", OptionKind::kBool, "take that memory at the start: true unless given"},
      {"allocator", OptionKind::kText, "default, bfc, platform or cuda_async"},
      {"visible_devices", OptionKind::kNumbers, "the GPUs of this host to use, by number: all unless given"},
      {"collective_memory_size", OptionKind::kNumber, "bytes of each GPU that are kept for collectives"},
      {"should_stage_host_to_device_transfers", OptionKind::kBool, "copy arrays through pinned host memory: true unless given"},
      {"abort_collectives_on_failure", OptionKind::kBool, "collectives end when a process of them has failed"},
  };
  static const std::vector<KnownOption> none;
  if (IsOurCpuPlugin(plugin)) return cpu;
  if (absl::StrContains(plugin, "xla_cuda_plugin.so") || absl::StrContains(plugin, "xla_rocm_plugin.so")) return gpu;
  return none;
}

absl::StatusOr<ClientOption> ParseClientOption(absl::string_view plugin, absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0)
    return absl::InvalidArgumentError(absl::StrCat("a device option is NAME=VALUE, not '", text, "'"));
  ClientOption option{.name = std::string(text.substr(0, equals)), .value = {}};
  const absl::string_view value = text.substr(equals + 1);
  if (std::ranges::find(kOwn, option.name) != std::ranges::end(kOwn))
    return absl::InvalidArgumentError(absl::StrCat("the worker sets the device option '", option.name, "' itself"));
  const std::vector<KnownOption>& known = KnownOptions(plugin);
  const auto found = std::ranges::find_if(known, [&](const KnownOption& one) { return option.name == one.name; });
  const OptionKind kind = found == known.end() ? Guess(value) : found->kind;
  if (!Read(kind, value, &option))
    return absl::InvalidArgumentError(
        absl::StrCat("the device option ", option.name, " wants ", NameOf(kind), ", not '", value, "'"));
  return option;
}

std::string ListOptions(absl::string_view plugin) {
  if (KnownOptions(plugin).empty())
    return absl::StrCat("The options of ", plugin,
                        " are not known here. NAME=VALUE passes any on; the plugin refuses those that it does not know.\n");
  std::string text = absl::StrCat("Options of ", plugin, ":\n");
  for (const KnownOption& option : KnownOptions(plugin))
    absl::StrAppend(&text, "  ", option.name, "=", NameOf(option.kind), "\n      ", option.help, "\n");
  return text;
}

}  // namespace pw::device::pjrt
