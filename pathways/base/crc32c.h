// CRC-32C (Castagnoli), the checksum of iSCSI and many storage formats. With the processor's instruction where it has one.
#pragma once

#include <cstdint>
#include <string_view>

namespace pw {

uint32_t Crc32c(std::string_view data);

// What processors without the instruction do; the same number.
uint32_t Crc32cPortable(std::string_view data);

}  // namespace pw
