#include "pathways/resource/natural_order.h"

#include <algorithm>

namespace pw::resource {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes the leading run of digits from `text` and returns it without its leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  const size_t end = std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin();
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a[0]) && IsDigit(b[0])) {
      const std::string_view x = TakeNumber(a), y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[0] != b[0]) return static_cast<unsigned char>(a[0]) < static_cast<unsigned char>(b[0]);
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

}  // namespace pw::resource
