// Fuzzes the frame decoder with any bytes, cut in any way. The first byte selects the buffer size and the cuts. The limits are small so
// that the fuzzer reaches both sides of them. Decoded frames are encoded again and must be a prefix of the input.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "pathways/base/log.h"
#include "pathways/net/framing.h"

using pw::net::FrameDecoder;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const pw::net::Limits limits{.max_header_bytes = 300, .max_payload_bytes = 5000};
  FrameDecoder decoder(limits, 16 + data[0] % 16 * 20);
  const size_t step = 1 + data[0] / 16 * 37;
  const std::string input(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string again;
  for (size_t at = 0; at < input.size();) {
    size_t taken = 0;
    for (const iovec& piece : decoder.Space()) {
      const size_t part = std::min({step - taken, piece.iov_len, input.size() - at});
      std::memcpy(piece.iov_base, input.data() + at, part);
      taken += part;
      at += part;
    }
    PW_CHECK(taken != 0);
    decoder.Commit(taken);
    while (true) {
      auto frame = decoder.Pop();
      if (!frame.ok()) {
        PW_CHECK(decoder.Pop().status() == frame.status());
        return 0;
      }
      if (!frame->has_value()) break;
      const std::string_view payload = (*frame)->payload.view();
      PW_CHECK((*frame)->header.size() <= limits.max_header_bytes && payload.size() <= limits.max_payload_bytes);
      std::string prefix(pw::net::kPrefixBytes, '\0');
      pw::net::EncodePrefix({static_cast<uint32_t>((*frame)->header.size()), payload.size()},
                            reinterpret_cast<uint8_t*>(prefix.data()));
      again += prefix + (*frame)->header;
      again += payload;
      PW_CHECK(input.compare(0, again.size(), again) == 0);
    }
  }
  PW_CHECK(!decoder.AtBoundary() || again == input);
  return 0;
}
