// CRC-32C (Castagnoli), the checksum of iSCSI and many storage formats. Uses the processor's instruction if there is one.
#pragma once

#include <cstdint>
#include <string_view>

namespace pw {

uint32_t Crc32c(std::string_view data);

// Computes the same checksum without the instruction.
uint32_t Crc32cPortable(std::string_view data);

}  // namespace pw
