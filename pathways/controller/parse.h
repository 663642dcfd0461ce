// What hosts report, out of the bytes that carry it.
#pragma once

#include <string_view>

namespace pw::controller {

// False if `bytes` are no such message, which then holds anything.
template <class Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace pw::controller
