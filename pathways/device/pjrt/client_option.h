// An option for creating a plugin's client.
#pragma once

#include <cstdint>
#include <string>

namespace pw::device::pjrt {

// A name with a number or a text.
struct ClientOption {
  std::string name;
  std::string text;
  int64_t number = 0;
  bool is_number = false;
};

}  // namespace pw::device::pjrt
