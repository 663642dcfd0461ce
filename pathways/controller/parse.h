// Parses reports of hosts.
#pragma once

#include <string_view>

namespace pw::controller {

// Returns false if `bytes` do not parse; then the contents of `message` are unspecified.
template <class Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace pw::controller
