// Flags: the command line of our binaries, typed, with a generated --help.
//
//   std::string address = "127.0.0.1:0";
//   Flags flags("pathways-controller", "Drives the hosts of a cluster.");
//   flags.Add("listen-clients", &address, "HOST:PORT", "where clients connect; port 0 picks a free one");
//   if (std::optional<int> exit_code = flags.ParseMain(argc, argv)) return *exit_code;
//
// Forms: --name=value, --name value; for a bool --name, --no-name, --name=true|false; "--" ends the flags. A flag with a vector target
// may be given more than once. Names are written with dashes. Flags is a local object of main(): no globals, no registration.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace pw {

class Flags {
 public:
  // `summary`: the purpose of the program, a few lines.
  Flags(std::string program, std::string summary);

  // `target` holds the default and outlives Parse. `value_name` names the value in --help.
  void Add(const std::string& name, std::string* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, std::vector<std::string>* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, int64_t* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, int* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, double* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, absl::Duration* target, const std::string& value_name,
           const std::string& help);  // "10s", "500ms"
  void Add(const std::string& name, bool* target, const std::string& help);

  // Parses `args`. INVALID_ARGUMENT names the flag; for an unknown flag it suggests the nearest known one. --help is not an error: it
  // sets help_wanted().
  absl::Status Parse(const std::vector<std::string>& args);
  bool help_wanted() const { return help_wanted_; }
  const std::vector<std::string>& positional() const { return positional_; }
  std::string Help() const;

  // For main(): parses `argv`. Returns the exit code after printing the help (0) or the error (2), or nullopt if the program continues.
  std::optional<int> ParseMain(int argc, char** argv);

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // empty: a bool
    std::string help;
    std::string default_text;
    std::function<bool(const std::string&)> set;  // false: not a value of this type
  };
  void Register(Flag flag);
  const Flag* Find(const std::string& name) const;
  absl::Status Unknown(const std::string& name) const;
  // Handles args[*i], which starts with "--", and its value if that is the next argument.
  absl::Status ParseOne(const std::vector<std::string>& args, size_t* i);

  const std::string program_;
  const std::string summary_;
  std::vector<Flag> flags_;
  std::vector<std::string> positional_;
  bool help_wanted_ = false;
};

}  // namespace pw
