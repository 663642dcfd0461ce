// Options with which a device plugin's client is created (PJRT_Client_Create): for example how much of a GPU's memory it takes.
//
// A plugin checks the type of each option and refuses others. Users write text, so the type comes from the option's name:
// KnownOptions lists the options of the plugins that we know. Of other options the text decides (ParseClientOption); the plugin
// says whether it knows them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::device::pjrt {

struct ClientOption {
  std::string name;
  std::variant<std::string, int64_t, bool, float, std::vector<int64_t>> value;
};

enum class OptionKind { kText, kNumber, kBool, kFraction, kNumbers };

struct KnownOption {
  const char* name;
  OptionKind kind;
  const char* help;
};

// Returns whether this is the plugin of plugins/pjrt_cpu, by its file name.
bool IsOurCpuPlugin(absl::string_view plugin);
// Returns the options that users may give to this plugin, which is recognized by its file name; empty: it is not known.
const std::vector<KnownOption>& KnownOptions(absl::string_view plugin);
// Reads "NAME=VALUE". INVALID_ARGUMENT if the value is not of the option's type, or the option is one that the worker sets
// itself.
absl::StatusOr<ClientOption> ParseClientOption(absl::string_view plugin, absl::string_view text);
// Returns a line for each option of the plugin, with its kind of value, for people.
std::string ListOptions(absl::string_view plugin);

}  // namespace pw::device::pjrt
