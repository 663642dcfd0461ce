#include "pathways/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace pw {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ByInstruction(std::string_view data) {
  uint64_t crc = 0xffffffff;
  for (; data.size() >= 8; data.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, data.data(), 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (char c : data) narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(c));
  return ~narrow;
}
#endif

}  // namespace

uint32_t Crc32cPortable(std::string_view data) {
  uint32_t crc = 0xffffffff;
  for (char c : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

uint32_t Crc32c(std::string_view data) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ByInstruction(data);
#endif
  return Crc32cPortable(data);
}

}  // namespace pw
