#include "pathways/base/process/flags.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw {
namespace {

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

bool ParseBool(const std::string& text, bool* value) {
  if (text == "true" || text == "1" || text == "yes") return *value = true, true;
  if (text == "false" || text == "0" || text == "no") return *value = false, true;
  return false;
}

// Wraps the words of `text` into lines of at most `width`; later lines are indented.
std::string Wrap(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > width - indent) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = 0;
    }
    absl::StrAppend(&out, column > 0 ? " " : "", word);
    column += word.size() + (column > 0);
  }
  return out;
}

}  // namespace

Flags::Flags(std::string program, std::string summary) : program_(std::move(program)), summary_(std::move(summary)) {}

void Flags::Register(Flag flag) {
  PW_CHECK(Find(flag.name) == nullptr);
  flags_.push_back(std::move(flag));
}

void Flags::Add(const std::string& name, std::string* target, const std::string& value_name, const std::string& help) {
  Register({name, value_name, help, *target, [target](const std::string& text) { return *target = text, true; }});
}

void Flags::Add(const std::string& name, std::vector<std::string>* target, const std::string& value_name,
                const std::string& help) {
  Register({name, value_name, absl::StrCat(help, "; may be given more than once"), absl::StrJoin(*target, " "),
            [target](const std::string& text) { return target->push_back(text), true; }});
}

void Flags::Add(const std::string& name, int64_t* target, const std::string& value_name, const std::string& help) {
  Register({name, value_name, help, absl::StrCat(*target),
            [target](const std::string& text) { return absl::SimpleAtoi(text, target); }});
}

void Flags::Add(const std::string& name, int* target, const std::string& value_name, const std::string& help) {
  Register({name, value_name, help, absl::StrCat(*target),
            [target](const std::string& text) { return absl::SimpleAtoi(text, target); }});
}

void Flags::Add(const std::string& name, double* target, const std::string& value_name, const std::string& help) {
  Register({name, value_name, help, absl::StrCat(*target),
            [target](const std::string& text) { return absl::SimpleAtod(text, target); }});
}

void Flags::Add(const std::string& name, absl::Duration* target, const std::string& value_name, const std::string& help) {
  Register({name, value_name, help, absl::FormatDuration(*target),
            [target](const std::string& text) { return absl::ParseDuration(text, target); }});
}

void Flags::Add(const std::string& name, bool* target, const std::string& help) {
  Register({name, "", help, *target ? "true" : "false", [target](const std::string& text) { return ParseBool(text, target); }});
}

const Flags::Flag* Flags::Find(const std::string& name) const {
  auto it = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.name == name; });
  return it == flags_.end() ? nullptr : &*it;
}

absl::Status Flags::Unknown(const std::string& name) const {
  std::string nearest;
  size_t best = std::numeric_limits<size_t>::max();
  for (const Flag& flag : flags_) {
    const size_t distance = EditDistance(name, flag.name);
    if (distance < best) best = distance, nearest = flag.name;
  }
  const bool close = best <= std::max<size_t>(2, name.size() / 3);
  return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name,
                                                 close ? absl::StrCat("; did you mean --", nearest, "?") : "", " (", program_,
                                                 " --help lists all flags)"));
}

absl::Status Flags::ParseOne(const std::vector<std::string>& args, size_t* i) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(args[*i].substr(2), absl::MaxSplits('=', 1));
  const bool has_value = args[*i].find('=') != std::string::npos;
  std::string name = parts.first;
  std::string value = parts.second;
  const Flag* flag = Find(name);
  if (flag == nullptr && !has_value && name.rfind("no-", 0) == 0) {
    flag = Find(name.substr(3));
    if (flag != nullptr && !flag->value_name.empty()) flag = nullptr;
    value = "false";
  } else if (flag != nullptr && !has_value && flag->value_name.empty()) {
    value = "true";
  } else if (flag != nullptr && !has_value) {
    if (*i + 1 >= args.size())
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value: --", name, "=", flag->value_name));
    value = args[++*i];
  }
  if (flag == nullptr) return Unknown(name);
  if (flag->set(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag->name, ": \"", value, "\" is not a valid ",
                                                 flag->value_name.empty() ? "true or false" : flag->value_name));
}

absl::Status Flags::Parse(const std::vector<std::string>& args) {
  bool only_positional = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (only_positional || arg.size() < 2 || arg[0] != '-') {
      positional_.push_back(arg);
    } else if (arg == "--") {
      only_positional = true;
    } else if (arg == "--help" || arg == "-h") {
      help_wanted_ = true;
    } else if (arg.rfind("--", 0) == 0) {
      PW_RETURN_IF_ERROR(ParseOne(args, &i));
    } else {
      return Unknown(arg.substr(1));
    }
  }
  return absl::OkStatus();
}

std::string Flags::Help() const {
  std::string out = absl::StrCat(program_, ": ", Wrap(summary_, 0, 100), "\n\nFlags:\n");
  for (const Flag& flag : flags_) {
    const std::string form =
        flag.value_name.empty() ? absl::StrCat("--[no-]", flag.name) : absl::StrCat("--", flag.name, "=", flag.value_name);
    const std::string fallback = flag.default_text.empty() ? "" : absl::StrCat(" (default ", flag.default_text, ")");
    absl::StrAppend(&out, "  ", form, "\n      ", Wrap(absl::StrCat(flag.help, fallback), 6, 100), "\n");
  }
  absl::StrAppend(&out, "  --help\n      this text\n");
  return out;
}

std::optional<int> Flags::ParseMain(int argc, char** argv) {
  const absl::Status status = Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok() && !help_wanted_) return std::nullopt;
  if (help_wanted_) {
    std::fputs(Help().c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), std::string(status.message()).c_str());
  return 2;
}

}  // namespace pw
