// Natural order of names: runs of digits compare as numbers, so "host2" comes before "host10".
#pragma once

#include <string_view>

namespace pw::resource {

// Compares in a strict total order: names that differ only in leading zeros are ordered by their text.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace pw::resource
