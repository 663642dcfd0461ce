// Lists of named values, as the C API passes them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plugins/c_table/version.h"

namespace pw::c_table {

// A list of named values that owns its strings and lists. Filled once; its PJRT view is valid as long as the object lives.
class NamedValues {
 public:
  using Value = std::variant<std::string, bool, int64_t, std::vector<int64_t>, float>;

  NamedValues() = default;
  NamedValues(const NamedValues&) = delete;
  NamedValues& operator=(const NamedValues&) = delete;

  void Add(std::string name, Value value);
  const PJRT_NamedValue* data() const { return views_.data(); }
  size_t size() const { return views_.size(); }

 private:
  std::deque<std::pair<std::string, Value>> values_;  // a deque: the views point into its elements
  std::vector<PJRT_NamedValue> views_;
};

}  // namespace pw::c_table
