// Flags: the command line of our binaries, typed, with a generated --help.
//
//   std::string address = "127.0.0.1:0";
//   Flags flags("pathways-controller", "Drives the hosts of a cluster.");
//   flags.Add("listen-clients", &address, "HOST:PORT", "where clients connect; port 0 picks a free one");
//   if (std::optional<int> exit_code = flags.ParseMain(argc, argv)) return *exit_code;
//
// Forms: --name=value, --name value; for a bool --name, --no-name, --name=true|false; "--" ends the flags. A vector takes the
// flag more than once. Names are written with dashes. An object of main(): no globals, no registration.
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
  // `summary`: what the program is for, a few lines.
  Flags(std::string program, std::string summary);

  // `target` holds the default and outlives Parse. `value_name` is what --help calls the value.
  void Add(const std::string& name, std::string* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, std::vector<std::string>* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, int64_t* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, int* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, double* target, const std::string& value_name, const std::string& help);
  void Add(const std::string& name, absl::Duration* target, const std::string& value_name,
           const std::string& help);  // "10s", "500ms"
  void Add(const std::string& name, bool* target, const std::string& help);

  // INVALID_ARGUMENT names the flag, and for one that does not exist the nearest that does. --help is not an error:
  // help_wanted().
  absl::Status Parse(const std::vector<std::string>& args);
  bool help_wanted() const { return help_wanted_; }
  const std::vector<std::string>& positional() const { return positional_; }
  std::string Help() const;

  // For main(): parses, prints help (then 0) or the error (then 2) and says with which code to exit; nullopt: go on.
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
