// Checks UTF-8 in text from outside.
#pragma once

#include <cstddef>
#include <string_view>

namespace pw {

// Returns the length of the well-formed UTF-8 sequence at the start of `text`, or 0 if there is none. REQUIRES: the text is not empty.
size_t Utf8Length(std::string_view text);

}  // namespace pw
