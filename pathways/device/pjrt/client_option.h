// What a plugin may be told when its client is made.
#pragma once

#include <cstdint>
#include <string>

namespace pw::device::pjrt {

// A number or a text.
struct ClientOption {
  std::string name;
  std::string text;
  int64_t number = 0;
  bool is_number = false;
};

}  // namespace pw::device::pjrt
