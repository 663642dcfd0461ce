// Sha256: names contents by a hash without known collisions.
#pragma once

#include <string>
#include <string_view>

namespace pw {

// Returns the 32 bytes of the SHA-256 of `data`.
std::string Sha256(std::string_view data);

}  // namespace pw
